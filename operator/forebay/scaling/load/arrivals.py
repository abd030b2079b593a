"""Arrivals: how many requests come in, and how long they are, read from the engines' own counters.

What arrives is what has finished, plus what is in flight, plus what was turned away, between two looks at a pod. What
is served would not do: it stands still at capacity, exactly when more is asked for. Each pod has its rate of the last
seconds, which is held while it is silent and goes with it; the sum is taken first and smoothed afterwards, so that a
pod that comes or goes moves load between pods and not the total.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, isfinite, sqrt
from typing import Final

from forebay.scaling.load.pod_history import PodHistory
from forebay.scaling.load.signals import EngineSample

SMOOTHING_SECONDS: Final = 60.0
"""The rate that decides is the mean of so long."""
SURGE_SECONDS: Final = 20.0
"""The mean of so long decides when it is more than chance makes of the last minute."""
SURGE_DEVIATIONS: Final = 4.0
"""How many standard deviations above the last minute's mean that is."""
LASTING_SECONDS: Final = 10.0
"""Every look since then, and the one before, has to be above the minute's mean: a burst of seconds is over before a
replica could serve."""
SETTLING_SECONDS: Final = 30.0
"""Before so much of it was seen, chance is too large a part of a rate."""
SPACING_SECONDS: Final = 5.0
MOST_MARKS: Final = 16
LENGTHS_SECONDS: Final = 600.0
"""Older requests count e times less for the mean lengths with each such span."""
FEWEST_REQUESTS: Final = 20.0
"""That have to finish before their lengths are believed, and that are never forgotten for being old."""
MOST_TOKENS: Final = 10_000_000.0
"""Of one request, as in the API."""
FEWEST_COMPUTED: Final = 0.05
"""A prefix cache is not believed to spare more than the rest: the next replica starts with an empty one."""
LARGEST_SHARE: Final = 3.0
"""Of prompt tokens computed in some seconds to those of the requests that finished in them."""
USUAL_DISPERSION: Final = 4.0
"""Variance over mean of the requests in some seconds, before it was seen here: 1 is Poisson, 12.8 was computed for the
busiest recorded service (reference rows of ServeGen)."""
LARGEST_DISPERSION: Final = 16.0
DISPERSION_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class ArrivalFlow:
    """What goes through the pods of one service, per second, all of them together."""

    requests: float
    """That arrive."""
    finished_requests: float = 0.0
    finished_prompt_tokens: float = 0.0
    """Of those that finish, before a prefix cache spares any."""
    finished_output_tokens: float = 0.0
    computed_prompt_tokens: float = 0.0
    span_seconds: float = SPACING_SECONDS
    """Over how long it was measured, on average."""


@dataclass(frozen=True, slots=True)
class RequestLengths:
    """What requests look like, on average."""

    prompt_tokens: float
    output_tokens: float
    computed_share: float = 1.0
    """Of the prompt tokens, those that a prefix cache does not spare."""
    requests: float = 0.0
    """So many finished requests they rest on, the older ones counted less; 0 for lengths that were only declared."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What is remembered of the arrivals of one service. Bounded."""

    marks: tuple[tuple[float, float], ...] = ()
    """(since when, requests per second), oldest first: of the last minute, and one from before it."""
    lengths: RequestLengths | None = None
    """As seen here; None before enough requests have finished."""
    gathering: RequestLengths | None = None
    """The same as it was counted, enough or not: prompts are computed before their requests finish, so a share of more
    than all of them evens out with one of less."""
    dispersion: float = USUAL_DISPERSION
    asked: tuple[float, float] | None = None
    """(when, requests that the gateway had been asked for until then)."""
    looked_at: float = 0.0

    def settled(self, now: float) -> bool:
        return bool(self.marks) and now - self.marks[0][0] >= SETTLING_SECONDS

    def requests_per_second(self, now: float) -> float | None:
        """The mean of the last minute, or of a surge within it; None before enough of it was seen.

        Over t seconds a rate m varies by √(IDC·m/t). What is far above that, and lasts, is no chance, and the mean of a
        minute would be half a minute late.
        """
        usual = self.in_the_last_minute(now)
        if usual is None:
            return None
        lately = _mean(self.marks, now, SURGE_SECONDS)
        chance = sqrt(self.dispersion * usual / SURGE_SECONDS)
        far = lately - usual > SURGE_DEVIATIONS * chance
        lasts = min(rate for _, rate in _recent(self.marks, now, LASTING_SECONDS)) > usual
        return lately if far and lasts else usual

    def in_the_last_minute(self, now: float) -> float | None:
        """Requests per second, surge or not."""
        return _mean(self.marks, now, SMOOTHING_SECONDS) if self.settled(now) else None


def flow_of(histories: Iterable[PodHistory]) -> ArrivalFlow | None:
    """The flow through all pods that can tell one; None when none can. The order of the pods does not matter."""
    spans = [(history.marks[-2], history.newest) for history in histories if len(history.marks) > 1]
    told = [flow for earlier, later in spans if (flow := _between(earlier, later)) is not None]
    if not told:
        return None
    return ArrivalFlow(
        requests=_sum(flow.requests for flow in told),
        finished_requests=_sum(flow.finished_requests for flow in told),
        finished_prompt_tokens=_sum(flow.finished_prompt_tokens for flow in told),
        finished_output_tokens=_sum(flow.finished_output_tokens for flow in told),
        computed_prompt_tokens=_sum(flow.computed_prompt_tokens for flow in told),
        span_seconds=_sum(flow.span_seconds for flow in told) / len(told),
    )


def observe(before: Arrivals, flow: ArrivalFlow | None, now: float, asked_requests: float | None = None) -> Arrivals:
    """The arrivals with one more look. Without a flow the rate is unknown once what was seen has grown old.

    A gateway that counts what it was `asked` for knows the arrivals better than the engines behind it.
    """
    marks = before.marks
    if marks and now - before.looked_at > SMOOTHING_SECONDS:
        marks = ()
    if marks and now - marks[-1][0] < SPACING_SECONDS:
        return before
    flow = _asked(before.asked, flow, now, asked_requests)
    if flow is None:
        kept = tuple(mark for mark in marks if now - mark[0] < SMOOTHING_SECONDS)
        return replace(before, marks=kept, asked=None if asked_requests is None else (now, asked_requests))
    seconds = now - before.looked_at if before.marks else 0.0
    marks = _recent((*marks, (now, flow.requests)), now, SMOOTHING_SECONDS)
    gathering = _lengths(before.gathering, flow, min(seconds, SMOOTHING_SECONDS))
    return Arrivals(
        marks=marks,
        lengths=_believed(gathering),
        gathering=gathering,
        dispersion=_dispersion(before, flow, seconds, now),
        asked=None if asked_requests is None else (now, asked_requests),
        looked_at=now,
    )


def _asked(
    before: tuple[float, float] | None, flow: ArrivalFlow | None, now: float, asked: float | None
) -> ArrivalFlow | None:
    """The flow with the gateway's count of arrivals; a count that went down began anew."""
    if asked is None or before is None or asked < before[1] or now <= before[0]:
        return flow
    rate, seconds = (asked - before[1]) / (now - before[0]), now - before[0]
    return (
        ArrivalFlow(rate, span_seconds=seconds) if flow is None else replace(flow, requests=rate, span_seconds=seconds)
    )


def _between(earlier: EngineSample, later: EngineSample) -> ArrivalFlow | None:
    """Of one pod. A history begins anew with the engine's process, so a counter that went down is not seen here."""
    seconds = later.taken_at - earlier.taken_at
    began, ended = _taken_in(earlier), _taken_in(later)
    if began is None or ended is None or seconds <= 0:
        return None
    prompts = _gain(earlier.finished_prompt_tokens, later.finished_prompt_tokens)
    outputs = _gain(earlier.finished_output_tokens, later.finished_output_tokens)
    computed = _gain(earlier.prompt_tokens, later.prompt_tokens)
    generated = _gain(earlier.generation_tokens, later.generation_tokens)
    return ArrivalFlow(
        requests=max(0.0, ended - began) / seconds,
        finished_requests=(_gain(earlier.finished_requests, later.finished_requests) or 0.0) / seconds,
        finished_prompt_tokens=_first(prompts, computed) / seconds,
        finished_output_tokens=_first(outputs, generated) / seconds,
        computed_prompt_tokens=_first(computed, prompts) / seconds,
        span_seconds=seconds,
    )


def _taken_in(sample: EngineSample) -> float | None:
    """Everything that came to the pod since it started; None when it does not say. Versions that turn requests away
    count those too."""
    if sample.finished_requests is None:
        return None
    total = sample.finished_requests + sample.in_flight + (sample.rejected_requests or 0.0)
    return total if isfinite(total) else None


def _gain(earlier: float | None, later: float | None) -> float | None:
    if earlier is None or later is None or not isfinite(later - earlier):
        return None
    return max(0.0, later - earlier)


def _first(*values: float | None) -> float:
    return next((value for value in values if value is not None), 0.0)


def _sum(values: Iterable[float]) -> float:
    """Sorted, so that the order of the pods cannot change a rounding."""
    return sum(sorted(values))


def _recent(marks: tuple[tuple[float, float], ...], now: float, span_seconds: float) -> tuple[tuple[float, float], ...]:
    """Those of so long, with the one mark that was in force when it began."""
    older = [index for index, (at, _) in enumerate(marks) if at <= now - span_seconds]
    return marks[older[-1] if older else 0 :][-MOST_MARKS:]


def _mean(marks: tuple[tuple[float, float], ...], now: float, span_seconds: float) -> float:
    """Each mark is in force until the next one; the last one, just seen, for as long as the one before it was."""
    begin = max(marks[0][0], now - span_seconds)
    total = weight = 0.0
    for (since, _), (until, rate) in pairwise(marks):
        length = max(0.0, until - max(since, begin))
        total += rate * length
        weight += length
    return total / weight if weight > 0 else marks[-1][1]


def _lengths(before: RequestLengths | None, flow: ArrivalFlow, seconds: float) -> RequestLengths | None:
    """The mean of what has finished, the older counted less, and bounded."""
    new = flow.finished_requests * seconds
    if new <= 0 or flow.finished_output_tokens <= 0:
        return before
    held = 0.0 if before is None else before.requests
    kept = max(held * exp(-seconds / LENGTHS_SECONDS), min(held, FEWEST_REQUESTS))
    part = new / (kept + new)
    prompt = min(MOST_TOKENS, max(1.0, flow.finished_prompt_tokens / flow.finished_requests))
    output = min(MOST_TOKENS, max(1.0, flow.finished_output_tokens / flow.finished_requests))
    spent = flow.finished_prompt_tokens
    share = min(LARGEST_SHARE, flow.computed_prompt_tokens / spent) if spent > 0 else 1.0
    if before is None:
        return RequestLengths(prompt, output, share, new)
    return RequestLengths(
        prompt_tokens=before.prompt_tokens + part * (prompt - before.prompt_tokens),
        output_tokens=before.output_tokens + part * (output - before.output_tokens),
        computed_share=before.computed_share + part * (share - before.computed_share),
        requests=kept + new,
    )


def _believed(gathering: RequestLengths | None) -> RequestLengths | None:
    """None before enough requests have finished."""
    if gathering is None or gathering.requests < FEWEST_REQUESTS:
        return None
    return replace(gathering, computed_share=min(1.0, max(FEWEST_COMPUTED, gathering.computed_share)))


def _dispersion(before: Arrivals, flow: ArrivalFlow, seconds: float, now: float) -> float:
    """Index of dispersion: a rate over t seconds with mean m has the variance IDC · m / t."""
    mean = before.in_the_last_minute(now)
    if mean is None or mean <= 0 or seconds <= 0:
        return before.dispersion
    seen = min((flow.requests - mean) ** 2 * flow.span_seconds / mean, 4 * LARGEST_DISPERSION)
    part = 1 - exp(-min(seconds, SMOOTHING_SECONDS) / DISPERSION_SECONDS)
    return min(LARGEST_DISPERSION, max(1.0, before.dispersion + part * (seen - before.dispersion)))
