"""Names of pods, and which ordinals are free."""

from itertools import islice

import pytest

from forebay.world.names import free_ordinals, pod_names
from forebay.world.world import ServiceKey
from tests.builders.world import a_revision

KEY = ServiceKey("default", "chat")
UID = "ab-cdef-0123"


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(1, ("chat-abcde-7f3c-4",), id="one pod: no rank"),
        pytest.param(2, ("chat-abcde-7f3c-4-0", "chat-abcde-7f3c-4-1"), id="one per rank"),
    ],
)
def test_names(pods, expected):
    assert pod_names(KEY, UID, a_revision(pods=pods), 4) == expected


@pytest.mark.parametrize(
    ("pods", "names", "ordinals", "expected"),
    [
        pytest.param(1, (), (), [0, 1, 2], id="lowest first"),
        pytest.param(1, ("chat-abcde-7f3c-0",), (2,), [1, 3, 4], id="neither taken names nor taken ordinals"),
        pytest.param(2, ("chat-abcde-7f3c-1-1",), (), [0, 2, 3], id="all ranks must be free"),
        pytest.param(1, ("chat-abcde-9999-0",), (), [0, 1, 2], id="another revision takes nothing"),
    ],
)
def test_free_ordinals(pods, names, ordinals, expected):
    assert list(islice(free_ordinals(KEY, UID, a_revision(pods=pods), names, ordinals), 3)) == expected


def test_the_longest_name_fits_into_a_host_name():
    key = ServiceKey("default", "a" * 40)
    (name,) = pod_names(key, UID, a_revision("f" * 7), 999)
    assert len(f"{name}-99") <= 63
