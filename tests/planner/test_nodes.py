"""Nodes that are lost, and nodes that are avoided."""

import pytest

from forebay.planner.nodes import avoided_nodes, lost_nodes, nodes_down
from forebay.planner.settings import Settings
from forebay.planner.state import Failure
from tests.builders.world import NOW, a_node, a_pod, a_service, nodes

SETTINGS = Settings(node_lost_after_seconds=60)


def test_a_node_is_down_since_it_says_so_or_since_it_was_first_seen_so():
    told = a_node("told", ready=False, unready_since=NOW - 300)
    seen = a_node("seen", ready=False)
    pod = a_pod(a_service(), node="missing")
    down = nodes_down([told, seen, a_node("up")], [pod], {"seen": NOW - 20, "up": NOW - 999}, NOW)
    assert down == {"told": NOW - 300, "seen": NOW - 20, "missing": NOW}


@pytest.mark.parametrize(
    ("there", "down", "expected"),
    [
        pytest.param(nodes(4), {"node-0": NOW - 60}, {"node-0"}, id="not ready for long enough"),
        pytest.param(nodes(4), {"node-0": NOW - 59}, set(), id="not yet"),
        pytest.param(nodes(2), {"node-0": NOW - 60}, {"node-0"}, id="one of two"),
        pytest.param(nodes(1), {"node-0": NOW - 60}, set(), id="the only one: nothing would be gained"),
        pytest.param(nodes(3), {f"node-{i}": NOW - 60 for i in range(2)}, set(), id="most: the fault is elsewhere"),
        pytest.param(nodes(2), {"missing": NOW - 60}, {"missing"}, id="gone"),
        pytest.param((), {"missing": NOW - 60}, set(), id="no node is known at all"),
    ],
)
def test_lost_nodes(there, down, expected):
    assert lost_nodes(there, down, SETTINGS, NOW) == expected


def failures(*places: str | None) -> list[Failure]:
    return [Failure(f"uid-{index}", node, NOW) for index, node in enumerate(places)]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        pytest.param(["node-0"], (), id="once is chance"),
        pytest.param(["node-0", "node-0"], ("node-0",), id="twice is not"),
        pytest.param(["node-0", "node-1"], (), id="on different nodes"),
        pytest.param(["node-0"] * 2 + ["node-1"] * 2, (), id="on all nodes: it is the service"),
        pytest.param([None, None, None], (), id="on no node"),
        pytest.param(["old", "old"], (), id="a node that is gone"),
    ],
)
def test_avoided_nodes(places, expected):
    assert avoided_nodes(failures(*places), nodes(2)) == expected
