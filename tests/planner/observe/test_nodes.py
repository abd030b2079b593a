"""Nodes that are lost, and nodes that are avoided."""

from dataclasses import replace

import pytest

from forebay.planner.memory import ReplicaFailure
from forebay.planner.observe.nodes import avoided_nodes, lost_nodes, nodes_down, notices_of
from forebay.world.settings import Settings
from tests.builders.world import NOW, a_node, a_pod, a_service, nodes

SETTINGS = Settings(node_lost_after_seconds=60)


def test_a_node_is_down_since_its_condition_says_or_since_it_was_first_observed():
    dated = a_node("dated", ready=False, unready_since=NOW - 300)
    undated = a_node("undated", ready=False)
    pod = a_pod(a_service(), node="missing")
    down = nodes_down([dated, undated, a_node("up")], [pod], {"undated": NOW - 20, "up": NOW - 999}, NOW)
    assert down == {"dated": NOW - 300, "undated": NOW - 20, "missing": NOW}


@pytest.mark.parametrize(
    ("existing", "down", "expected"),
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
def test_lost_nodes(existing, down, expected):
    assert lost_nodes(existing, down, SETTINGS, NOW) == expected


@pytest.mark.parametrize(
    ("existing", "down", "notices", "expected"),
    [
        pytest.param(
            [*nodes(3), replace(a_node("off"), ready=False, shut_down=True)],
            {"off": NOW},
            (),
            {"off"},
            id="it is said to be off: at once",
        ),
        pytest.param(
            [replace(node, ready=False, shut_down=True) for node in nodes(3)],
            {node.name: NOW for node in nodes(3)},
            (),
            {"node-0", "node-1", "node-2"},
            id="all are said to be off",
        ),
        pytest.param(
            nodes(1),
            {"spot-0": NOW - 60, "spot-1": NOW - 60},
            ("spot-0", "spot-1"),
            {"spot-0", "spot-1"},
            id="most are gone after a notice: it is no loss of sight",
        ),
        pytest.param(nodes(1), {"spot-0": NOW - 59}, ("spot-0",), set(), id="gone after a notice, but not for long"),
        pytest.param(
            nodes(3),
            {"node-0": NOW - 60, "node-1": NOW - 60, "spot-0": NOW - 60},
            ("spot-0",),
            {"spot-0"},
            id="a notice for one does not explain the others",
        ),
    ],
)
def test_nodes_whose_end_was_announced(existing, down, notices, expected):
    assert lost_nodes(existing, down, SETTINGS, NOW, notices) == expected


def test_a_notice_runs_from_the_tick_that_first_observed_it():
    spot = replace(a_node("spot-0"), notice=True)
    first = notices_of([spot, a_node("quiet")], (), {}, NOW)
    assert first == {"spot-0": NOW + 120}
    assert notices_of([spot], (), first, NOW + 50) == first


@pytest.mark.parametrize(
    ("existing", "down", "expected"),
    [
        pytest.param([a_node("spot-0")], (), {}, id="it was withdrawn"),
        pytest.param([], ("spot-0",), {"spot-0": NOW + 120}, id="the node is gone and pods name it"),
        pytest.param([], (), {}, id="the node and its pods are gone"),
    ],
)
def test_the_end_of_a_notice(existing, down, expected):
    assert notices_of(existing, down, {"spot-0": NOW + 120}, NOW + 50) == expected


def failures(*places: str | None, revision: str = "7f3c", ended: bool = False) -> list[ReplicaFailure]:
    return [ReplicaFailure(f"uid-{index}", revision, node, NOW, ended) for index, node in enumerate(places)]


NOWHERE: dict[str, frozenset[str]] = {"7f3c": frozenset()}
ELSEWHERE = {"7f3c": frozenset({"node-1"})}


@pytest.mark.parametrize(
    ("failed", "serving_on", "expected"),
    [
        pytest.param(failures("node-0"), NOWHERE, (), id="once is chance"),
        pytest.param(failures("node-0", "node-0"), NOWHERE, ("node-0",), id="twice is not"),
        pytest.param(failures("node-0"), ELSEWHERE, ("node-0",), id="once, and it serves elsewhere: it is the node"),
        pytest.param(failures("node-1"), ELSEWHERE, (), id="once, and it serves there"),
        pytest.param(failures("node-0", ended=True), ELSEWHERE, (), id="refused by the node once: it may be full"),
        pytest.param(failures("node-0", "node-1"), NOWHERE, (), id="on different nodes"),
        pytest.param(failures(*["node-0", "node-1"] * 2), NOWHERE, (), id="on all nodes: it is the service"),
        pytest.param(failures(None, None), NOWHERE, (), id="on no node"),
        pytest.param(failures("old", "old"), NOWHERE, (), id="a node that is gone"),
        pytest.param(failures("node-0", "node-0", revision="past"), NOWHERE, (), id="a revision of the past"),
    ],
)
def test_avoided_nodes(failed, serving_on, expected):
    assert avoided_nodes(failed, nodes(2), serving_on) == expected
