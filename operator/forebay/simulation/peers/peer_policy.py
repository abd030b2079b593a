"""Adapts a peer's rule to the closed loop: it turns scrapes into gauges and means of the last minute."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum

from forebay.scaling.load.observed_latency import latency_of
from forebay.scaling.load.signals import EngineSample, HistogramSample
from forebay.simulation.cluster.policy import PolicyReplica, PolicyView
from forebay.simulation.cluster.scrape_model import ScrapeTiming
from forebay.simulation.peers.peer_view import Peer, PeerReplica, PeerView

MINUTE_SECONDS = 60.0
PROMETHEUS = ScrapeTiming(period_seconds=15.0, delay_seconds=1.0, staggered=True)
"""Scrapes of rules that read Prometheus, at its usual interval."""


@dataclass(slots=True)
class PeerPolicy:
    """A peer as a policy of the closed loop. One object serves one service in one run."""

    peer: Peer
    version: str
    """Version of the product, or the year in which its rule was read."""
    scrape: ScrapeTiming = PROMETHEUS
    _samples: dict[str, deque[EngineSample]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.peer.name

    @property
    def period_seconds(self) -> float:
        return self.peer.period_seconds

    def decide(self, view: PolicyView) -> int:
        readings = [reading for reading in view.ready if reading.sample is not None]
        self._remember(readings)
        spans = {
            reading.name: (self._samples[reading.name][0], self._samples[reading.name][-1]) for reading in readings
        }
        prompt, output = _lengths(spans.values())
        return self.peer.replicas(
            PeerView(
                now=view.now,
                wanted=view.desired,
                ready=tuple(_replica(reading.name, *spans[reading.name]) for reading in readings),
                starting=view.starting,
                requests_per_second=fsum(_arrivals_per_second(*span) for span in spans.values()),
                prompt_tokens=prompt,
                output_tokens=output,
            )
        )

    def _remember(self, readings: list[PolicyReplica]) -> None:
        """Keep the samples of the last minute and the one before them, at which rates begin."""
        self._samples = {reading.name: self._samples.get(reading.name, deque()) for reading in readings}
        for reading in readings:
            samples, sample = self._samples[reading.name], reading.sample
            if sample is not None and (not samples or sample.taken_at > samples[-1].taken_at):
                samples.append(sample)
                while len(samples) > 2 and samples[1].taken_at <= sample.taken_at - MINUTE_SECONDS:
                    samples.popleft()


def _replica(name: str, earlier: EngineSample, later: EngineSample) -> PeerReplica:
    return PeerReplica(
        name=name,
        waiting=later.waiting_requests,
        running=later.running_requests,
        kv_fraction=later.kv_fraction,
        first_token_seconds=_mean(earlier.time_to_first_token, later.time_to_first_token),
        inter_token_seconds=_mean(earlier.inter_token_latency, later.inter_token_latency),
    )


def _mean(earlier: HistogramSample | None, later: HistogramSample | None) -> float | None:
    latency = latency_of([(earlier, later)])
    return None if latency is None else latency.mean_seconds


def _arrivals_per_second(earlier: EngineSample, later: EngineSample) -> float:
    """Arrivals between two samples: requests that have finished, run or wait by now, and did not before."""
    elapsed = later.taken_at - earlier.taken_at
    if elapsed <= 0:
        return 0.0
    finished = (later.finished_requests or 0.0), (earlier.finished_requests or 0.0)
    arrivals = finished[0] + later.in_flight - finished[1] - earlier.in_flight
    return max(0.0, arrivals) / elapsed


def _lengths(spans: Iterable[tuple[EngineSample, EngineSample]]) -> tuple[float, float]:
    """Mean tokens of prompt and answer; 0 while no request has got its first token, or none has finished."""
    pairs = list(spans)
    started = fsum(_count(late.time_to_first_token) - _count(early.time_to_first_token) for early, late in pairs)
    ended = fsum((late.finished_requests or 0.0) - (early.finished_requests or 0.0) for early, late in pairs)
    prompts = fsum((late.prompt_tokens or 0.0) - (early.prompt_tokens or 0.0) for early, late in pairs)
    answers = fsum((late.generation_tokens or 0.0) - (early.generation_tokens or 0.0) for early, late in pairs)
    return (prompts / started if started > 0 else 0.0, answers / ended if ended > 0 else 0.0)


def _count(histogram: HistogramSample | None) -> float:
    return 0.0 if histogram is None else histogram.count
