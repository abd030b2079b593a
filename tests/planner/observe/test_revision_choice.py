"""Which revision pods are of: an operator upgrade restarts nothing, going back takes up what was."""

from dataclasses import replace

import pytest

from forebay.planner.memory import State
from forebay.planner.observe.revision_choice import choose, revisions_to_delete
from forebay.planner.planner import plan
from tests.builders.plans import actions, condition, creates, drains, forgets
from tests.builders.world import NOW, a_revision, a_service, a_world, pods_of, signals_of

A, B, C = (a_revision(hash_, number=number) for number, hash_ in ((1, "aaaa"), (2, "bbbb"), (3, "cccc")))


@pytest.mark.parametrize(
    ("wanted", "stored", "target", "number", "written", "update"),
    [
        pytest.param(a_revision("aaaa"), (), "aaaa", 1, True, False, id="the first one"),
        pytest.param(a_revision("aaaa"), (A,), "aaaa", 1, False, False, id="as it is"),
        pytest.param(a_revision("bbbb"), (A,), "bbbb", 2, True, False, id="another spec"),
        pytest.param(
            a_revision("new0", spec_hash="spec-aaaa"), (A,), "aaaa", 1, False, True, id="a new operator: left alone"
        ),
        pytest.param(a_revision("aaaa"), (A, B, C), "aaaa", 4, True, False, id="going back"),
        pytest.param(
            a_revision("new0", spec_hash="spec-aaaa"),
            (A, B),
            "aaaa",
            3,
            True,
            True,
            id="going back under a new operator: what ran then",
        ),
        pytest.param(
            a_revision("bbbb", spec_hash="other"), (A, B), "bbbb", 2, True, False, id="said differently, meant alike"
        ),
        pytest.param(
            a_revision("aaaa", spec_hash="other"), (A, B), "aaaa", 3, True, False, id="means what an old one did"
        ),
    ],
)
def test_the_revision_to_roll_to(wanted, stored, target, number, written, update):
    choice = choose(wanted, stored)
    assert (choice.target.hash, choice.target.number) == (target, number)
    assert (choice.store is not None, choice.update_available) == (written, update)
    if choice.store is not None:
        assert choice.store.revision == choice.target
        assert choice.target.spec_hash == wanted.spec_hash
    assert choose(wanted, tuple(reversed(stored))) == choice


def test_a_stored_revision_is_not_stored_again():
    wanted = a_revision("aaaa")
    first = choose(wanted, (A, B))
    again = choose(wanted, (first.target, B))
    assert (again.target, again.store) == (first.target, None)


def test_a_new_operator_restarts_no_pod():
    service = a_service(min_replicas=2, wanted=a_revision("new0", spec_hash="spec-7f3c"))
    pods = pods_of(service, 2, revision="7f3c")
    world = a_world(service, pods=pods, signals=signals_of(pods), revisions={service.uid: (a_revision(number=1),)})
    done, _ = plan(world, State.empty(NOW - 3600), NOW)
    assert actions(done) == ()
    assert condition(done, "UpToDate") == ("False", "UpdateAvailable")


def test_a_new_replica_under_a_new_operator_is_built_from_the_stored_revision():
    service = a_service(min_replicas=2, wanted=a_revision("new0", spec_hash="spec-7f3c"))
    pods = pods_of(service, 1, revision="7f3c")
    world = a_world(service, pods=pods, signals=signals_of(pods), revisions={service.uid: (a_revision(number=1),)})
    done, _ = plan(world, State.empty(NOW - 3600), NOW)
    assert creates(done) == [f"chat-{service.uid[:5]}-7f3c-1"]
    assert drains(done) == []


def test_ten_unused_revisions_are_kept():
    stored = tuple(a_revision(f"r{number:03}", number=number) for number in range(1, 15))
    gone = revisions_to_delete(stored, used={"r001", stored[-1].hash})
    assert [action.name for action in gone] == ["revision-r003", "revision-r002"]


def test_revisions_with_pods_are_never_forgotten():
    stored = tuple(a_revision(f"r{number:03}", number=number) for number in range(1, 15))
    service = a_service(min_replicas=1, wanted=replace(stored[-1], number=0, name=""))
    pods = pods_of(service, 1, revision="r014") + pods_of(service, 1, revision="r001", deleting=True)
    world = a_world(service, pods=pods, signals=signals_of(pods), revisions={service.uid: stored})
    done, _ = plan(world, State.empty(NOW - 3600), NOW)
    assert forgets(done) == ["revision-r003", "revision-r002"]
