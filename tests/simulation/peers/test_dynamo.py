"""Dynamo's planner: steps computed by hand."""

import pytest

from forebay.simulation.engine.simulated_profile import BUILT_IN
from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.dynamo import DynamoPlanner
from forebay.simulation.peers.static_replicas import StaticReplicas
from tests.simulation.peers.peer_views import a_peer_view, replicas

ASSUMED = AssumedEngine(BUILT_IN["8b-h100"])


def test_throughput_is_the_rate_over_what_one_engine_carries():
    # s = 15.89 ms at 500/200; at 50 ms (1 − 6.9/50) / 15.89 ms = 54.25 requests a second.
    assert ASSUMED.requests_per_second(500, 200, 0.05) == pytest.approx(54.25, abs=0.05)
    assert DynamoPlanner(ASSUMED, by_load=False).replicas(a_peer_view(0, replicas(2), rate=100)) == 2
    assert DynamoPlanner(ASSUMED, by_load=False).replicas(a_peer_view(0, replicas(2), rate=110)) == 3


def test_throughput_is_looked_at_every_three_minutes():
    planner = DynamoPlanner(ASSUMED, by_load=False)
    assert planner.replicas(a_peer_view(0, replicas(1), rate=50)) == 1
    assert planner.replicas(a_peer_view(175, replicas(1), rate=500)) == 1
    assert planner.replicas(a_peer_view(180, replicas(1), rate=500)) == 10


def test_load_adds_one_when_every_worker_is_late():
    one_idle = (*replicas(2, waiting=100), *replicas(1))
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, replicas(2, waiting=100), rate=10)) == 3
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, one_idle, rate=10)) == 3


def test_load_removes_one_when_the_rest_would_stay_within_four_fifths():
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, replicas(4, running=10, kv=0.02), rate=10)) == 3
    # 6.9 ms + 4/3 × (5 µs × 200 + 0.052 µs × 0.9 × 467,000) = 37.4 ms is within 40; with 0.97 it is not.
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, replicas(4, running=200, kv=0.9), rate=10)) == 3
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, replicas(4, running=200, kv=0.99), rate=10)) == 4


def test_nothing_moves_while_scaling_is_under_way():
    assert DynamoPlanner(ASSUMED).replicas(a_peer_view(0, replicas(2, waiting=100), starting=1, rate=10)) == 3


def test_static_stays():
    assert StaticReplicas(7).replicas(a_peer_view(0, replicas(1, waiting=1000))) == 7
