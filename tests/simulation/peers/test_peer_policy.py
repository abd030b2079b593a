"""Peers in the closed loop: they see scrapes with a delay, and their replica counts are applied as a Deployment's."""

import pytest

from forebay.simulation.cluster.policy import PolicyControl
from forebay.simulation.peers.hpa import HorizontalPodAutoscaler, PerPod, in_flight
from forebay.simulation.peers.peer_policy import PROMETHEUS, PeerPolicy
from forebay.simulation.peers.peer_view import PeerView
from forebay.simulation.traffic.traces import steps
from tests.simulation.loops import CHAT, PROMISE, a_loop


class Watching:
    """A peer that stores the views it gets."""

    name, period_seconds = "watching", 15.0

    def __init__(self) -> None:
        self.views: list[PeerView] = []

    def replicas(self, view: PeerView) -> int:
        self.views.append(view)
        return 2


def test_it_sees_rates_and_lengths_of_the_last_minute():
    peer = Watching()
    a_loop(10.0, 400, control=PolicyControl({CHAT: PeerPolicy(peer, "1")}), initial_replicas=2).run(400)
    last = peer.views[-1]
    assert last.requests_per_second == pytest.approx(10, rel=0.25)
    assert last.prompt_tokens == pytest.approx(500, rel=0.05)
    assert last.output_tokens == pytest.approx(200, rel=0.1)
    assert len(last.ready) == 2
    for replica in last.ready:
        assert replica.first_token_seconds is not None
        assert replica.inter_token_seconds == pytest.approx(0.0075, rel=0.3)
        assert 0.01 < replica.first_token_seconds < 0.1


def test_what_it_sees_is_as_old_as_a_scrape():
    """Load begins at 300 s. The peer sees nothing of it before a scrape has been made and has arrived."""
    peer = Watching()
    traffic = steps((0.0, 0.001), (300.0, 40.0))
    a_loop(traffic, 400, control=PolicyControl({CHAT: PeerPolicy(peer, "1")}), initial_replicas=2).run(400)
    first = next(view.now for view in peer.views if view.in_flight > 4)
    assert 300 + PROMETHEUS.delay_seconds <= first <= 300 + 2 * PROMETHEUS.period_seconds + PROMETHEUS.delay_seconds


def test_an_hpa_scales_a_simulated_service():
    hpa = HorizontalPodAutoscaler("HPA", (PerPod(in_flight, 60.0),))
    traffic = steps((0.0, 10.0), (200.0, 90.0), (600.0, 5.0))
    loop = a_loop(traffic, 1200, control=PolicyControl({CHAT: PeerPolicy(hpa, "1.33")}), initial_replicas=1)
    outcome = loop.run(1200)[CHAT]
    counts = [tick.serving for tick in outcome.ticks]
    assert max(counts) >= 3
    assert counts[-1] <= 2
    assert 0.3 < outcome.summary(PROMISE).attainment < 1.0
