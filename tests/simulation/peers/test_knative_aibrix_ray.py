"""The rules of Knative, AIBrix and Ray Serve: steps computed by hand, and their known behaviour."""

import pytest

from forebay.simulation.peers.aibrix import AdaptivePodAutoscaler
from forebay.simulation.peers.knative import KnativePodAutoscaler
from forebay.simulation.peers.ray_serve import RayServe
from tests.simulation.peers.peer_views import a_peer_view, replicas


def test_knative_follows_the_mean_of_a_minute():
    kpa = KnativePodAutoscaler(target=10)
    for now in range(0, 60, 2):
        count = kpa.replicas(a_peer_view(now, replicas(4, running=10)))
    assert count == 4
    for now in range(60, 90, 2):  # half a minute at 15 each: mean of the window (15 × 40 + 15 × 60) / 30 = 50
        count = kpa.replicas(a_peer_view(now, replicas(4, running=15)))
    assert count == 5


def test_knative_never_more_than_halves_at_once():
    kpa = KnativePodAutoscaler(target=10)
    assert kpa.replicas(a_peer_view(0, replicas(9, running=0.1))) == 4


def test_knative_panics_on_a_doubling_and_holds_the_count_for_a_minute():
    kpa = KnativePodAutoscaler(target=10)
    for now in range(0, 60, 2):
        kpa.replicas(a_peer_view(now, replicas(2, running=10)))
    for now in range(60, 68, 2):
        peak = kpa.replicas(a_peer_view(now, replicas(2, running=25)))
    assert peak == 5
    after = [kpa.replicas(a_peer_view(now, replicas(5, running=1))) for now in range(68, 200, 2)]
    assert set(after[: 60 // 2]) == {5}
    assert after[-1] < 5


@pytest.mark.parametrize(
    ("kv", "count", "expected"), [(0.5, 4, 4), (0.55, 4, 4), (0.6, 4, 5), (0.9, 4, 8), (1.0, 4, 8), (1.0, 1, 2)]
)
def test_aibrix_up_at_once(kv, count, expected):
    assert AdaptivePodAutoscaler(target=0.5).replicas(a_peer_view(0, replicas(count, kv=kv))) == expected


def test_aibrix_at_most_doubles():
    assert AdaptivePodAutoscaler(target=0.25).replicas(a_peer_view(0, replicas(3, kv=1.0))) == 6


def test_aibrix_down_after_its_cooldown_by_at_most_half():
    apa = AdaptivePodAutoscaler(target=0.5)
    assert apa.replicas(a_peer_view(0, replicas(8, kv=0.5))) == 8
    assert apa.replicas(a_peer_view(290, replicas(8, kv=0.1))) == 8
    assert apa.replicas(a_peer_view(310, replicas(8, kv=0.1))) == 4


def test_ray_waits_out_its_delay_in_each_direction():
    ray = RayServe(target=2)
    counts = [ray.replicas(a_peer_view(now, replicas(2, running=4))) for now in range(0, 40, 10)]
    assert counts == [2, 2, 2, 4]
    down = [ray.replicas(a_peer_view(40 + now, replicas(4, running=0.5))) for now in range(0, 900, 10)]
    first = next(index for index, count in enumerate(down) if count < 4)
    assert first * 10 >= 600
    assert down[first] == 1
