"""Arrivals: the request rate and the request lengths of a service, computed from the engines' own counters.

The arrivals between two samples of a pod are the change of finished + in-flight + rejected requests. The served rate
would not do: it stops growing at capacity, exactly when more replicas are needed. Each pod has a rate of the last
seconds. The rate is held while the pod reports no metrics and is dropped with the pod. The rates are summed first and
smoothed afterwards, so load that moves between pods as they come and go does not change the total.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, inf, isfinite, sqrt
from typing import Final

from forebay.scaling.load.counters import MOST_TOKENS
from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.signals import EngineSample

SMOOTHING_SECONDS: Final = 60.0
"""The arrival rate is the mean over this time, unless there is a surge."""
SURGE_SECONDS: Final = 20.0
"""In a surge, the arrival rate is the mean over this shorter time."""
SURGE_DEVIATIONS: Final = 4.0
"""A surge is a mean that many standard deviations above the mean of the last minute."""
LASTING_SECONDS: Final = 10.0
"""In a surge, every rate of the last 10 s and the one before them is above the mean of the minute. A burst of a few
seconds is over before a new replica could serve."""
SETTLING_SECONDS: Final = 30.0
"""A rate over less than this time is too random to be used."""
SPACING_SECONDS: Final = 5.0
MOST_MARKS: Final = 16
AGREEMENT: Final = 3.0
"""Largest factor between a rate and the larger of the rates before and after it; what is above it does not count."""
CHANCE_REQUESTS: Final = 20.0
"""Requests in one interval that need no agreement: where few arrive, most intervals have none."""
LENGTHS_SECONDS: Final = 600.0
"""Time constant of the mean lengths: the weight of a request falls by a factor of e in this time."""
FEWEST_REQUESTS: Final = 20.0
"""Requests that have to finish before their lengths are used. This many keep their full weight whatever their age."""
FEWEST_COMPUTED: Final = 0.05
"""Smallest share of prompt tokens that is assumed to be computed: a new replica starts with an empty prefix cache."""
LARGEST_LEAP: Final = 1.5
"""Factor by which one reading may lengthen the mean request at once. A true change is answered one scrape later."""
LARGEST_SHARE: Final = 3.0
"""Largest ratio of prompt tokens computed in an interval to prompt tokens of requests that finished in it."""
USUAL_DISPERSION: Final = 4.0
"""IDC, index of dispersion (variance over mean of the arrivals), until it has been measured. 1 is Poisson; 12.8 was
computed for the busiest recorded service (reference rows of ServeGen)."""
LARGEST_DISPERSION: Final = 16.0
DISPERSION_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class ArrivalFlow:
    """Requests and tokens per second through all pods of one service."""

    requests: float
    """Arriving requests per second."""
    finished_requests: float = 0.0
    finished_prompt_tokens: float = 0.0
    """Prompt tokens of finished requests, those found in a prefix cache included."""
    finished_output_tokens: float = 0.0
    computed_prompt_tokens: float = 0.0
    span_seconds: float = SPACING_SECONDS
    """Mean time between the two samples of each pod."""
    counted_share: float = 1.0
    """Share of the serving replicas that count requests; the others are taken to get as much."""

    def extended(self, share: ArrivalFlow, factor: float) -> ArrivalFlow:
        """This flow and `factor` times another one, over the same span."""
        return ArrivalFlow(
            requests=self.requests + factor * share.requests,
            finished_requests=self.finished_requests + factor * share.finished_requests,
            finished_prompt_tokens=self.finished_prompt_tokens + factor * share.finished_prompt_tokens,
            finished_output_tokens=self.finished_output_tokens + factor * share.finished_output_tokens,
            computed_prompt_tokens=self.computed_prompt_tokens + factor * share.computed_prompt_tokens,
            span_seconds=self.span_seconds,
            counted_share=1 / (1 + factor),
        )


@dataclass(frozen=True, slots=True)
class RequestLengths:
    """Mean lengths of requests."""

    prompt_tokens: float
    output_tokens: float
    computed_share: float = 1.0
    """Share of the prompt tokens that is computed and not found in a prefix cache."""
    requests: float = 0.0
    """Finished requests behind the means, the older ones with less weight; 0 for lengths that were only declared."""


@dataclass(frozen=True, slots=True)
class OlderArrivals:
    """The arrivals at an earlier time, for when later ones turn out to be wrong."""

    at: float
    rate: float | None
    """Requests per second in the minute before; None while unknown."""
    gathering: RequestLengths | None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What is remembered of the arrivals of one service. The size is bounded."""

    marks: tuple[tuple[float, float], ...] = ()
    """(time, requests per second), oldest first: those of the last minute and one from before it."""
    lengths: RequestLengths | None = None
    """Measured lengths; None before enough requests have finished."""
    gathering: RequestLengths | None = None
    """The raw means, even of a few requests. Their computed share may exceed 1, since prompts are computed before their
    requests finish; larger and smaller shares even out."""
    dispersion: float = USUAL_DISPERSION
    received: tuple[float, float] | None = None
    """(time, value of the gateway's request counter at that time)."""
    updated_at: float = 0.0
    older: tuple[OlderArrivals, ...] = ()
    """Two, a minute apart, the older one first."""
    doubted: frozenset[str] = frozenset()
    """Pods whose counters are not trusted."""
    held: bool = False
    """Whether the newest mark repeats the mean of those before it, because nobody counts requests now."""

    def settled(self, now: float) -> bool:
        return bool(self.marks) and now - self.marks[0][0] >= SETTLING_SECONDS

    def requests_per_second(self, now: float) -> float | None:
        """The mean of the last minute, or of the last 20 s in a surge; None before enough was measured.

        Over t seconds a mean rate m has the standard deviation √(IDC·m/t). A rate far above that which lasts is not
        random, and the mean of a minute would react half a minute late.
        """
        mean = self.in_the_last_minute(now)
        if mean is None:
            return None
        recent_mean = _mean(self.marks, now, SURGE_SECONDS)
        deviation = sqrt(self.dispersion * mean / SURGE_SECONDS)
        significant = recent_mean - mean > SURGE_DEVIATIONS * deviation
        lasting = min(rate for _, rate in _recent(self.marks, now, LASTING_SECONDS)) > mean
        return recent_mean if significant and lasting else mean

    def in_the_last_minute(self, now: float) -> float | None:
        """Requests per second, surge or not."""
        return _mean(self.marks, now, SMOOTHING_SECONDS) if self.settled(now) else None


def flow_of(histories: Iterable[PodHistory]) -> ArrivalFlow | None:
    """The flow through all pods whose counters are known; None when there are none. The order of pods has no effect."""
    spans = [history.flow_span for history in histories]
    flows = [flow for span in spans if span is not None and (flow := _between(*span)) is not None]
    if not flows:
        return None
    return ArrivalFlow(
        requests=_sum(flow.requests for flow in flows),
        finished_requests=_sum(flow.finished_requests for flow in flows),
        finished_prompt_tokens=_sum(flow.finished_prompt_tokens for flow in flows),
        finished_output_tokens=_sum(flow.finished_output_tokens for flow in flows),
        computed_prompt_tokens=_sum(flow.computed_prompt_tokens for flow in flows),
        span_seconds=_sum(flow.span_seconds for flow in flows) / len(flows),
    )


def update_arrivals(
    before: Arrivals,
    flow: ArrivalFlow | None,
    now: float,
    received_requests: float | None = None,
    *,
    holds: bool = False,
    doubted: frozenset[str] = frozenset(),
) -> Arrivals:
    """The arrivals with one more measurement. Without a flow, the rate becomes unknown after a minute.

    With `holds`, the mean of the last minute stays in force instead: requests are served that nobody counts.
    `received_requests` is the gateway's counter. It takes precedence, since a gateway receives requests before the
    engines do. `doubted` names the pods whose counters are not trusted.
    """
    before = _without_the_doubted(before, doubted)
    marks = before.marks
    if marks and now - before.updated_at > SMOOTHING_SECONDS:
        marks = ()
    if marks and now - marks[-1][0] < SPACING_SECONDS:
        return before
    flow = _with_gateway_rate(before.received, flow, now, received_requests)
    # Over a gap as long as the marks reach, what was known at the last look stays in force.
    held, held_at = (marks, now) if marks else (before.marks, before.updated_at)
    if flow is None and holds and before.settled(held_at):
        # The look before the one that cannot be read may be the first that is wrong.
        kept = held if before.held or len(held) < 3 else held[:-1]
        rate = _mean(kept, held_at, SMOOTHING_SECONDS)
        return replace(before, marks=_recent((*kept, (now, rate)), now, SMOOTHING_SECONDS), held=True, updated_at=now)
    if flow is None:
        kept = tuple(mark for mark in marks if now - mark[0] < SMOOTHING_SECONDS)
        return replace(before, marks=kept, received=None if received_requests is None else (now, received_requests))
    seconds = now - before.updated_at if before.marks else 0.0
    marks = _recent((*marks, (now, flow.requests)), now, SMOOTHING_SECONDS)
    gathering = _lengths(before.gathering, flow, min(seconds, SMOOTHING_SECONDS))
    return Arrivals(
        marks=marks,
        lengths=_usable_lengths(before.gathering if _leaps(before.gathering, gathering) else gathering),
        gathering=gathering,
        older=_older(before, now),
        doubted=doubted,
        dispersion=_dispersion(before, flow, seconds, now),
        received=None if received_requests is None else (now, received_requests),
        updated_at=now,
    )


def _without_the_doubted(before: Arrivals, doubted: frozenset[str]) -> Arrivals:
    """The arrivals of a minute ago or more once another pod's counters are doubted, since they may have been wrong.

    A wrong rate and wrong lengths go together: ten times as many requests look a tenth as long. Wrong lengths would
    otherwise count for ten minutes, and too short ones would lower the count.
    """
    if doubted == before.doubted:
        return before
    if doubted <= before.doubted or not before.older or before.older[0].rate is None:
        return replace(before, doubted=doubted)
    rate, gathering = before.older[0].rate, before.older[0].gathering
    marks = tuple((at, rate) for at, _ in before.marks)
    return replace(before, doubted=doubted, marks=marks, gathering=gathering, lengths=_usable_lengths(gathering))


def _older(before: Arrivals, now: float) -> tuple[OlderArrivals, ...]:
    if before.older and now - before.older[-1].at < SMOOTHING_SECONDS:
        return before.older
    return (*before.older, OlderArrivals(now, before.in_the_last_minute(now), before.gathering))[-2:]


def _with_gateway_rate(
    before: tuple[float, float] | None, flow: ArrivalFlow | None, now: float, received: float | None
) -> ArrivalFlow | None:
    """The flow with the arrival rate of the gateway. A counter that went down was reset and gives no rate."""
    if received is None or before is None or received < before[1] or now <= before[0]:
        return flow
    rate, seconds = (received - before[1]) / (now - before[0]), now - before[0]
    return (
        ArrivalFlow(rate, span_seconds=seconds) if flow is None else replace(flow, requests=rate, span_seconds=seconds)
    )


def _between(earlier: EngineSample, later: EngineSample) -> ArrivalFlow | None:
    """The flow of one pod. Its history restarts with the engine's process, so counters never go down here."""
    seconds = later.taken_at - earlier.taken_at
    began, ended = _accepted_requests(earlier), _accepted_requests(later)
    if began is None or ended is None or seconds <= 0:
        return None
    prompts = _increase(earlier.finished_prompt_tokens, later.finished_prompt_tokens)
    outputs = _increase(earlier.finished_output_tokens, later.finished_output_tokens)
    computed = _increase(earlier.prompt_tokens, later.prompt_tokens)
    generated = _increase(earlier.generation_tokens, later.generation_tokens)
    return ArrivalFlow(
        requests=max(0.0, ended - began) / seconds,
        finished_requests=(_increase(earlier.finished_requests, later.finished_requests) or 0.0) / seconds,
        finished_prompt_tokens=_first(prompts, computed) / seconds,
        finished_output_tokens=_first(outputs, generated) / seconds,
        computed_prompt_tokens=_first(computed, prompts) / seconds,
        span_seconds=seconds,
    )


def _accepted_requests(sample: EngineSample) -> float | None:
    """Requests that reached the pod since it started; None when it does not count them. Rejected requests are included
    in engine versions that reject any."""
    if sample.finished_requests is None:
        return None
    total = sample.finished_requests + sample.in_flight + (sample.rejected_requests or 0.0)
    return total if isfinite(total) else None


def _increase(earlier: float | None, later: float | None) -> float | None:
    if earlier is None or later is None or not isfinite(later - earlier):
        return None
    return max(0.0, later - earlier)


def _first(*values: float | None) -> float:
    return next((value for value in values if value is not None), 0.0)


def _sum(values: Iterable[float]) -> float:
    """The sum in sorted order, so that the order of the pods cannot change the rounding."""
    return sum(sorted(values))


def _recent(marks: tuple[tuple[float, float], ...], now: float, span_seconds: float) -> tuple[tuple[float, float], ...]:
    """The marks of the time span, and the one mark that was in force when the span began."""
    older = [index for index, (at, _) in enumerate(marks) if at <= now - span_seconds]
    return marks[older[-1] if older else 0 :][-MOST_MARKS:]


def _mean(marks: tuple[tuple[float, float], ...], now: float, span_seconds: float) -> float:
    """The mean rate, weighted by time. Each mark gives the rate of the time since the mark before it."""
    begin = max(marks[0][0], now - span_seconds)
    total = weight = 0.0
    for (since, _), (until, rate) in pairwise(_agreed(marks)):
        length = max(0.0, until - max(since, begin))
        total += rate * length
        weight += length
    return total / weight if weight > 0 else marks[-1][1]


def _agreed(marks: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """The marks, each rate bounded by its neighbours: one wrong reading must not order a fleet.

    A true step is delayed until the second look confirms it.
    """
    chance = CHANCE_REQUESTS / SPACING_SECONDS
    rates = [rate for _, rate in marks]
    bounds = [max(rates[max(0, i - 1) : i] + rates[i + 1 : i + 2], default=inf) for i in range(len(rates))]
    return tuple((at, min(rate, AGREEMENT * most + chance)) for (at, rate), most in zip(marks, bounds, strict=True))


def _lengths(before: RequestLengths | None, flow: ArrivalFlow, seconds: float) -> RequestLengths | None:
    """Mean lengths of the finished requests, older ones with less weight. The values are bounded."""
    new = flow.finished_requests * seconds
    if new <= 0 or flow.finished_output_tokens <= 0:
        return before
    earlier = 0.0 if before is None else before.requests
    kept = max(earlier * exp(-seconds / LENGTHS_SECONDS), min(earlier, FEWEST_REQUESTS))
    part = new / (kept + new)
    prompt = min(MOST_TOKENS, max(1.0, flow.finished_prompt_tokens / flow.finished_requests))
    output = min(MOST_TOKENS, max(1.0, flow.finished_output_tokens / flow.finished_requests))
    prompts = flow.finished_prompt_tokens
    share = min(LARGEST_SHARE, flow.computed_prompt_tokens / prompts) if prompts > 0 else 1.0
    if before is None:
        return RequestLengths(prompt, output, share, new)
    return RequestLengths(
        prompt_tokens=before.prompt_tokens + part * (prompt - before.prompt_tokens),
        output_tokens=before.output_tokens + part * (output - before.output_tokens),
        computed_share=before.computed_share + part * (share - before.computed_share),
        requests=kept + new,
    )


def _leaps(before: RequestLengths | None, now: RequestLengths | None) -> bool:
    """Whether one reading made requests so much longer that the next one has to confirm it."""
    if before is None or now is None:
        return False
    longer = max(now.prompt_tokens / before.prompt_tokens, now.output_tokens / before.output_tokens)
    return longer > LARGEST_LEAP


def _usable_lengths(gathering: RequestLengths | None) -> RequestLengths | None:
    """The lengths once enough requests have finished; None before."""
    if gathering is None or gathering.requests < FEWEST_REQUESTS:
        return None
    return replace(gathering, computed_share=min(1.0, max(FEWEST_COMPUTED, gathering.computed_share)))


def _dispersion(before: Arrivals, flow: ArrivalFlow, seconds: float, now: float) -> float:
    """IDC, the index of dispersion, smoothed: a rate over t seconds with mean m has the variance IDC·m/t."""
    mean = before.in_the_last_minute(now)
    if mean is None or mean <= 0 or seconds <= 0:
        return before.dispersion
    measured = min((flow.requests - mean) ** 2 * flow.span_seconds / mean, 4 * LARGEST_DISPERSION)
    part = 1 - exp(-min(seconds, SMOOTHING_SECONDS) / DISPERSION_SECONDS)
    return min(LARGEST_DISPERSION, max(1.0, before.dispersion + part * (measured - before.dispersion)))
