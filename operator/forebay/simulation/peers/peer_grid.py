"""The peers of a comparison: each with its default setting, and the grid of settings that tuning chooses from.

The best setting is chosen on other data than the comparison uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.cluster.policy import Policy
from forebay.simulation.cluster.scrape_model import ScrapeTiming
from forebay.simulation.peers.aibrix import AdaptivePodAutoscaler
from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.dynamo import DynamoPlanner
from forebay.simulation.peers.hpa import Cron, HorizontalPodAutoscaler, PerPod, Total, in_flight, kv_fraction, waiting
from forebay.simulation.peers.knative import KnativePodAutoscaler
from forebay.simulation.peers.peer_policy import PROMETHEUS, PeerPolicy
from forebay.simulation.peers.peer_view import Peer
from forebay.simulation.peers.ray_serve import RayServe
from forebay.simulation.peers.static_replicas import StaticReplicas
from forebay.simulation.peers.wva import APPLIED_AFTER_SECONDS, HpaApplied, SaturationAnalyzer, TokenAnalyzer
from forebay.simulation.peers.wva_queueing import Coefficients, QueueingAnalyzer

DIRECT_SCRAPES = ScrapeTiming(period_seconds=5.0, delay_seconds=0.5)
"""Scrapes of rules that read the metrics of pods directly."""
SHORT_WINDOW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PeerInputs:
    """What a rule may be configured with: what its users know of the model and of their calendar."""

    engine: AssumedEngine
    promise: Promise
    batch: float
    """Sequences in the batch of a replica at its latency limit: the natural target of concurrency rules."""
    windows: tuple[tuple[float, float], ...] = ()
    """Begin and end of scheduled peaks, for rules that have a calendar."""
    window_replicas: int = 1
    static_count: int = 1


@dataclass(frozen=True, slots=True)
class PeerSetting:
    """One rule with one setting."""

    rule: str
    version: str
    """Version of the product, or the year if the rule was read from its main branch."""
    target: str
    """The setting, in the terms of the rule."""
    tuned: bool
    build: Callable[[PeerInputs], Peer]
    scrape: ScrapeTiming = PROMETHEUS

    def policy(self, inputs: PeerInputs) -> Policy:
        return PeerPolicy(self.build(inputs), self.version, self.scrape)


def defaults() -> tuple[PeerSetting, ...]:
    """Each rule with its documented default. A rule without a default target gets the one of its documentation."""
    return (
        _hpa_waiting(5, tuned=False),
        _hpa_kv(0.5, tuned=False),
        _hpa_in_flight(0.8, tuned=False),
        _keda(0.8, tuned=False),
        _knative(None, tuned=False),
        _aibrix(0.5, tuned=False),
        _ray(2.0, None, tuned=False),
        _wva_saturation(0.8, tuned=False),
        _wva_tokens(0.85, tuned=False),
        _wva_queueing(1.0, tuned=False),
        _dynamo(1.0, by_load=False, tuned=False),
        _dynamo(1.0, by_load=True, tuned=False),
    )


def grid() -> Iterator[PeerSetting]:
    """Settings of each rule, from far too careful to what a user would try first, so that the best lies inside.

    The careful end reaches far: with bursts, a reactive rule serves the most requests in time when its pods have hardly
    any load.
    """
    for queue in (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0):
        yield _hpa_waiting(queue, tuned=True)
    for share in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
        yield _hpa_in_flight(share, tuned=True)
        yield _keda(share, tuned=True)
        yield _ray(None, share, tuned=True)
    for share in (0.02, 0.04, 0.06, 0.08, 0.12, 0.16, 0.2, 0.3, 0.5):
        yield _knative(share, tuned=True)
    for target in (0.0025, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 0.2):
        yield _hpa_kv(target, tuned=True)
        yield _aibrix(target, tuned=True)
        yield _wva_saturation(target, tuned=True)
        yield _wva_tokens(target, tuned=True)
    for share in (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.85):
        yield _wva_queueing(share, tuned=True)
        yield _dynamo(share, by_load=False, tuned=True)
        yield _dynamo(share, by_load=True, tuned=True)


def static() -> PeerSetting:
    return PeerSetting("static peak", "", "p99.9 of need", False, lambda inputs: StaticReplicas(inputs.static_count))


def _hpa_waiting(target: float, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        return HorizontalPodAutoscaler("HPA waiting", (Total(waiting, target),))

    return PeerSetting("HPA waiting", "autoscaling/v2", f"{target:g} waiting a pod", tuned, build)


def _hpa_kv(target: float, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        return HorizontalPodAutoscaler("HPA KV", (PerPod(kv_fraction, target),))

    return PeerSetting("HPA KV", "autoscaling/v2", f"KV {100 * target:g} %", tuned, build)


def _hpa_in_flight(share: float, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        return HorizontalPodAutoscaler("HPA in flight", (PerPod(in_flight, share * inputs.batch),))

    return PeerSetting("HPA in flight", "autoscaling/v2", f"{share:g} of the SLO batch", tuned, build)


def _keda(share: float, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        metrics = (PerPod(in_flight, share * inputs.batch), Cron(inputs.windows, inputs.window_replicas))
        return HorizontalPodAutoscaler("KEDA + cron", metrics, period_seconds=30.0)

    return PeerSetting("KEDA + cron", "2", f"{share:g} of the SLO batch, windows", tuned, build)


def _knative(share: float | None, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        return KnativePodAutoscaler() if share is None else KnativePodAutoscaler(share * inputs.batch)

    setting = "70 % of 100" if share is None else f"{share:g} of the SLO batch"
    return PeerSetting("Knative KPA", "1", setting, tuned, build, ScrapeTiming(2.0, 0.5))


def _aibrix(target: float, *, tuned: bool) -> PeerSetting:
    return PeerSetting(
        "AIBrix APA", "2026", f"KV {100 * target:g} %", tuned, lambda inputs: AdaptivePodAutoscaler(target=target)
    )


def _ray(target: float | None, share: float | None, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        return RayServe(target if target is not None else (share or 1.0) * inputs.batch)

    setting = f"{target:g} ongoing" if target is not None else f"{share:g} of the SLO batch"
    return PeerSetting("Ray Serve", "2", setting, tuned, build, ScrapeTiming(10.0, 0.5))


def _wva_saturation(kv: float, *, tuned: bool) -> PeerSetting:
    """The spare-KV threshold is an eighth of the saturation threshold, as in WVA's defaults."""

    def build(inputs: PeerInputs) -> Peer:
        analyzer = SaturationAnalyzer(kv_saturated=kv, spare_kv=kv / 8)
        return HpaApplied("WVA v1", analyzer, window_seconds=_applied_after(tuned))

    return PeerSetting("WVA v1", "2026", f"KV {100 * kv:g} %, queue 5{_at_once(tuned)}", tuned, build)


def _wva_tokens(up_at: float, *, tuned: bool) -> PeerSetting:
    """The lower target is 0.70/0.85 of the upper one, as in WVA's defaults."""
    down_at = float(f"{up_at * 0.70 / 0.85:.2g}")

    def build(inputs: PeerInputs) -> Peer:
        analyzer = TokenAnalyzer(inputs.engine, up_at=up_at, down_at=down_at)
        return HpaApplied("WVA v2", analyzer, window_seconds=_applied_after(tuned))

    return PeerSetting("WVA v2", "2026", f"{100 * up_at:g} % / {100 * down_at:g} %{_at_once(tuned)}", tuned, build)


def _wva_queueing(share: float, *, tuned: bool) -> PeerSetting:
    def build(inputs: PeerInputs) -> Peer:
        profile, promise = inputs.engine.profile, inputs.promise
        start = Coefficients(profile.step_seconds, profile.prompt_token_seconds, profile.kv_token_seconds)
        analyzer = QueueingAnalyzer(
            start,
            share * promise.time_to_first_token,
            share * promise.inter_token_latency,
            max_num_seqs=inputs.engine.max_num_seqs,
        )
        return HpaApplied("WVA queueing", analyzer, window_seconds=_applied_after(tuned))

    return PeerSetting("WVA queueing", "2026", f"{_of_the_slo(share)}{_at_once(tuned)}", tuned, build)


def _applied_after(tuned: bool) -> float:
    """The HPA window: 240 s in WVA's chart, a short one where the rule is tuned."""
    return SHORT_WINDOW_SECONDS if tuned else APPLIED_AFTER_SECONDS


def _at_once(tuned: bool) -> str:
    return f", after {SHORT_WINDOW_SECONDS:g} s" if tuned else ""


def _of_the_slo(share: float) -> str:
    return "SLO" if share == 1 else f"{share:g} of the SLO"


def _dynamo(share: float, *, by_load: bool, tuned: bool) -> PeerSetting:
    name = "Dynamo" if by_load else "Dynamo throughput"

    def build(inputs: PeerInputs) -> Peer:
        promise = inputs.promise
        return DynamoPlanner(
            inputs.engine,
            share * promise.time_to_first_token,
            share * promise.inter_token_latency,
            by_load=by_load,
            name=name,
        )

    setting = _of_the_slo(share) + (", load mode" if by_load else "")
    return PeerSetting(name, "2026", setting, tuned, build, DIRECT_SCRAPES)
