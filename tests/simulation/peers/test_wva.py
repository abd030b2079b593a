"""WVA's analyzers: steps computed by hand, and their known weaknesses."""

import pytest

from forebay.simulation.engine.simulated_profile import BUILT_IN
from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.wva import HpaApplied, SaturationAnalyzer, TokenAnalyzer
from forebay.simulation.peers.wva_queueing import Coefficients, QueueingAnalyzer, expected_latency
from tests.simulation.peers.peer_views import a_peer_view, replicas

ASSUMED = AssumedEngine(BUILT_IN["8b-h100"])


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (a_peer_view(ready=replicas(2, kv=0.5)), 2),  # on one: 1.0 full, no room
        (a_peer_view(ready=replicas(3, kv=0.4)), 2),  # on two: 0.6 full, 0.2 spare
        (a_peer_view(ready=replicas(2, kv=0.72)), 3),  # 0.08 spare
        (a_peer_view(ready=replicas(2, kv=0.72), starting=1), 3),  # one is on its way
        (a_peer_view(ready=replicas(2, waiting=3)), 3),  # 2 spare
        (a_peer_view(ready=replicas(2, kv=0.9)), 3),  # all saturated
        (a_peer_view(ready=replicas(1, kv=0.1)), 1),
        (a_peer_view(ready=(), wanted=2), 2),
    ],
)
def test_saturation(view, expected):
    assert SaturationAnalyzer().proposal(view) == expected


def test_saturation_looks_at_the_peak_of_a_minute():
    rule = SaturationAnalyzer()
    rule.proposal(a_peer_view(0, replicas(3, kv=0.75)))
    assert rule.proposal(a_peer_view(30, replicas(3, kv=0.1))) == 4
    assert rule.proposal(a_peer_view(61, replicas(3, kv=0.1))) == 2


def test_it_goes_one_step_at_a_time_however_far_it_is_behind():
    """What it is known for: its thresholds sit beyond the latency limits, and each step is one replica."""
    rule = HpaApplied("WVA v1", SaturationAnalyzer())
    wanted = 2
    for now in range(0, 600, 15):
        wanted = rule.replicas(a_peer_view(now, replicas(wanted, kv=1.0, waiting=500)))
    assert wanted <= 5


def test_an_analyzers_count_acts_once_it_held_for_the_hpas_window():
    rule = HpaApplied("WVA v1", SaturationAnalyzer())
    counts = {now: rule.replicas(a_peer_view(now, replicas(2, kv=0.75))) for now in range(0, 270, 15)}
    assert counts[225] == 2
    assert counts[240] == 3


def test_tokens_up_and_down():
    rule = TokenAnalyzer(ASSUMED)
    # 467,000 tokens; a replica is worth min(0.8 × 467,000, min(8,192 × 200 / 700, 256) × 600) = 153,600.
    assert rule.proposal(a_peer_view(ready=replicas(2, kv=0.25))) == 2  # 233,500 used: between 0.70 and 0.85 of 307,200
    assert rule.proposal(a_peer_view(ready=replicas(2, kv=0.3))) == 3  # 280,200 / 0.85 = 329,647
    assert rule.proposal(a_peer_view(ready=replicas(4, kv=0.1))) == 2  # 186,800 / 0.70 = 266,857; 2.26 spare
    # 186,800 + 200,000 = 386,800; 386,800 / 0.85 = 455,059; 455,059 / 153,600 = 2.96
    assert rule.proposal(a_peer_view(ready=replicas(2, kv=0.2, waiting=200))) == 3


def test_a_queue_in_light_load_is_empty_and_in_overload_long():
    model = Coefficients(0.007, 1.7e-5, 5e-8)
    light = expected_latency(1.0, model, 500, 200, 256)
    assert light.inter_token_seconds == pytest.approx(0.007, rel=0.1)
    assert light.first_token_seconds < 0.05
    assert expected_latency(80.0, model, 500, 200, 256).first_token_seconds > 5


def test_the_queueing_model_divides_arrivals_by_its_largest_rate():
    def proposal(rate: float) -> int:
        rule = QueueingAnalyzer(Coefficients(0.0069, 1.73e-5, 5.2e-8))
        return rule.proposal(a_peer_view(ready=replicas(2), rate=rate))

    largest_rate = next(rate for rate in range(1, 200) if proposal(rate) == 2)
    assert proposal(2 * largest_rate - 2) == 2
    assert proposal(10 * largest_rate) in (10, 11)
    assert 30 < largest_rate < 80  # the 8B profile carries 52 requests a second at 40 ms by the mean-value formula


def test_the_filter_follows_what_it_sees():
    rule = QueueingAnalyzer(Coefficients(0.0069, 1.73e-5, 5.2e-8))
    true = Coefficients(0.0083, 2.1e-5, 6.2e-8)
    for n in (10, 50, 100, 150, 200) * 20:
        step = true.step_seconds(n, 500, 200)
        rule.proposal(a_peer_view(ready=replicas(1, running=n, itl=step), rate=20))
    assert rule.model.step_seconds(120, 500, 200) == pytest.approx(true.step_seconds(120, 500, 200), rel=0.02)
