"""The HPA, and KEDA on top of it: steps computed by hand, and their known weaknesses."""

import pytest

from forebay.simulation.peers.hpa import Cron, HorizontalPodAutoscaler, PerPod, Total, in_flight, kv_fraction, waiting
from tests.simulation.peers.peer_views import a_peer_view, replicas


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (a_peer_view(ready=replicas(4, running=10)), 4),  # exactly at the target
        (a_peer_view(ready=replicas(4, running=11)), 4),  # 1.1: inside the tolerance
        (a_peer_view(ready=replicas(4, running=12)), 5),  # 1.2 × 4 = 4.8
        (a_peer_view(ready=replicas(4, running=5)), 2),
        (a_peer_view(ready=replicas(4, running=9)), 4),
        (a_peer_view(ready=(), wanted=3), None),  # no data, no opinion
        # 2 ready at twice the target, 2 starting count as 0: the ratio becomes 1, so nothing changes.
        (a_peer_view(ready=replicas(2, running=20), starting=2), 4),
        # 3.0 × 2 ready = 6 over 4 pods is 1.5: 6 pods.
        (a_peer_view(ready=replicas(2, running=30), starting=2), 6),
        # Going down, pods that are starting are not counted.
        (a_peer_view(ready=replicas(4, running=5), starting=2), 2),
    ],
)
def test_pods_metric(view, expected):
    assert PerPod(in_flight, 10).proposal(view) == expected


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (a_peer_view(ready=replicas(2, waiting=30)), 6),
        (a_peer_view(ready=replicas(2, waiting=30), starting=4), 6),  # 60 / (10 × 6) = 1.0
        (a_peer_view(ready=replicas(2, waiting=32), starting=4), 6),  # 64 / 60 = 1.07: inside the tolerance
        (a_peer_view(ready=replicas(2, waiting=0)), 0),
    ],
)
def test_external_metric_shares_a_total(view, expected):
    assert Total(waiting, 10).proposal(view) == expected


def test_up_is_limited_to_the_larger_of_twice_and_four_more():
    hpa = HorizontalPodAutoscaler("HPA", (PerPod(waiting, 1),))
    assert hpa.replicas(a_peer_view(0, replicas(2, waiting=100))) == 6
    assert hpa.replicas(a_peer_view(15, replicas(6, waiting=100))) == 12


def test_down_takes_the_highest_of_five_minutes():
    hpa = HorizontalPodAutoscaler("HPA", (PerPod(in_flight, 10),))
    assert hpa.replicas(a_peer_view(0, replicas(8, running=10))) == 8
    for now in range(15, 300, 15):
        assert hpa.replicas(a_peer_view(now, replicas(8, running=2))) == 8
    assert hpa.replicas(a_peer_view(300, replicas(8, running=2))) == 2


def test_several_metrics_the_largest_counts():
    hpa = HorizontalPodAutoscaler("HPA", (PerPod(in_flight, 10), PerPod(kv_fraction, 0.5)))
    assert hpa.replicas(a_peer_view(0, replicas(2, running=10, kv=0.75))) == 3


def test_on_a_queue_it_overshoots_while_pods_start():
    """A known weakness: the queue grows while pods load, and every decision orders more of them."""
    hpa = HorizontalPodAutoscaler("HPA", (Total(waiting, 5),))
    wanted, queue = 2, 10.0
    for step in range(12):  # three minutes, no new pod ready, 5 more requests wait at every look
        queue += 5 * 15
        wanted = hpa.replicas(a_peer_view(15 * step, replicas(2, waiting=queue / 2), starting=wanted - 2))
    assert wanted >= 100


def test_kedas_cron_floor_holds_inside_its_window_and_the_hpa_holds_it_five_minutes_longer():
    keda = HorizontalPodAutoscaler("KEDA", (PerPod(in_flight, 10), Cron(((600, 1200),), 8)), period_seconds=30)
    wanted = 2
    counts = {}
    for now in range(0, 1800, 30):
        wanted = keda.replicas(a_peer_view(now, replicas(wanted, running=1)))
        counts[now] = wanted
    assert counts[570] == 1
    assert counts[600] == 5  # 4 more at once
    assert counts[630] == 8
    assert counts[1170] == 8
    assert counts[1440] == 8
    assert counts[1500] == 1
