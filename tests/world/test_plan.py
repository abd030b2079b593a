"""The one order of actions."""

from forebay.world.plan import (
    ACTION_ORDER,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    LiftGate,
    StartDrain,
    StoreRevision,
    in_order,
)
from tests.builders.world import a_place, a_revision

ONE_OF_EACH = (
    StoreRevision(a_revision()),
    ApplyChildren(),
    StartDrain("a", "uid-a", "1", "surplus"),
    DeletePod("b", "uid-b", "1", "drained"),
    AdoptPod("c", "uid-c", "1"),
    CancelDrain("d", "uid-d", "1"),
    CreatePod(a_revision(), 0, 0, "e"),
    DeletePlaceholder("f", "uid-f", "1", "its place is needed"),
    CreatePlaceholder(a_place(), "g", "forebay-placeholder"),
    LiftGate("h", "uid-h", "1"),
    DeleteRevision("i"),
)


def test_dependencies_come_first_and_removals_before_creations():
    assert in_order(reversed(ONE_OF_EACH)) == ONE_OF_EACH
    assert tuple(type(action) for action in ONE_OF_EACH) == ACTION_ORDER


def test_actions_of_one_type_stay_as_they_were():
    creates = tuple(CreatePod(a_revision(), ordinal, 0, f"chat-{ordinal}") for ordinal in (2, 0, 1))
    drain = StartDrain("a", "uid-a", "1", "surplus")
    assert in_order((*creates, drain)) == (drain, *creates)
