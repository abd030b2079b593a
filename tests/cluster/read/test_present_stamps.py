from dataclasses import replace
from email.utils import formatdate
from typing import Any

from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.present_stamps import NODE_STAMPS, POD_STAMPS, with_present_stamps
from forebay.world.world import NodeView, PodView
from tests.builders.world import NOW, a_node, a_pod, a_service, a_world

HOUR = 3600.0


def set_ahead_an_hour() -> ServerClock:
    """The clock of an operator that runs since 100 s, and whose API server was set ahead an hour 50 s ago."""
    elapsed = [0.0]
    clock = ServerClock(monotonic=lambda: elapsed[0], wall=lambda: NOW - 100.0 + elapsed[0])
    for seconds in range(0, 101, 10):
        elapsed[0] = float(seconds)
        ahead = HOUR if seconds >= 50 else 0.0
        clock.answered(formatdate(NOW - 100.0 + seconds + ahead, usegmt=True), elapsed[0], elapsed[0])
    assert clock.steps == 1
    return clock


def test_every_stamp_of_a_pod_and_a_node_from_before_the_step_moves_with_the_clock():
    of_pod: dict[str, Any] = dict.fromkeys(POD_STAMPS, NOW - 90.0)
    of_node: dict[str, Any] = dict.fromkeys(NODE_STAMPS, NOW - 90.0)
    pod, node = replace(a_pod(a_service("chat")), **of_pod), replace(a_node("node-0"), **of_node)
    world = with_present_stamps(a_world(pods=[pod], nodes=[node]), set_ahead_an_hour())
    assert {round(getattr(world.pods[0], name) - NOW) for name in POD_STAMPS} == {round(HOUR - 90.0)}
    assert {round(getattr(world.nodes[0], name) - NOW) for name in NODE_STAMPS} == {round(HOUR - 90.0)}


def test_stamps_from_after_the_step_and_missing_ones_stay():
    pod, node = a_pod(a_service("chat"), created_at=NOW + HOUR - 20.0, ready=False), a_node("node-0")
    node = replace(node, created_at=NOW + HOUR - 20.0, unready_since=None)
    pod = replace(pod, ready_since=None, unready_since=None, scheduled_at=None)
    world = with_present_stamps(a_world(pods=[pod], nodes=[node]), set_ahead_an_hour())
    assert world.pods == (pod,)
    assert world.nodes == (node,)


def test_all_stamps_of_pods_and_nodes_are_known():
    times = {"_at", "_since"}
    for view, known in ((PodView, POD_STAMPS), (NodeView, NODE_STAMPS)):
        stamps = {name for name in view.__dataclass_fields__ if any(name.endswith(ending) for ending in times)}
        assert stamps == set(known)
