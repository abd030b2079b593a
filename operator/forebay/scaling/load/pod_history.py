"""Pod history: the samples of one pod that are kept to compute rates over the last minute.

The size is bounded: at most `MOST_MARKS` samples and as many KV readings, at any scrape interval.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

from forebay.scaling.load.counters import ANY_ENGINE, EngineBounds, why_implausible, why_invalid, without_counters
from forebay.scaling.load.signals import EngineSample

RATE_SECONDS: Final = 60.0
"""Time over which latencies and rates are computed."""
SMOOTHING_SECONDS: Final = 60.0
"""Time over which the maximum of the KV use counts. KV use oscillates: 0.47 to 0.99 within 10 s were measured at
constant overload."""
OLDEST_SECONDS: Final = 120.0
"""Oldest sample that may be compared with the newest one; an older one says nothing about the last minute."""
SPACING_SECONDS: Final = 10.0
MOST_MARKS: Final = 13
MOST_REQUESTS_PER_SECOND: Final = 5_000.0
"""More than the HTTP servers of any pod accept. A counter that rises faster is wrong, and would order a huge fleet."""
FULLEST: Final = 1.01
"""Largest KV fraction: vLLM counts one block less than it has, so a full cache reads slightly above 1."""
MOST_REQUESTS: Final = 1_000_000.0
"""More requests than any pod holds."""
IMPLAUSIBLE_SECONDS: Final = 60.0
"""Time for which samples with too many new requests are rejected. After it they are accepted, and the history before
it is dropped."""
DISTRUST_SECONDS: Final = 60.0
"""Time without an implausible counter after which counters are used again."""
UNCOUNTED_SECONDS: Final = 15.0
"""Time after which a pod should have counted requests between two samples."""
MOST_AHEAD_SECONDS: Final = 60.0
"""How far ahead of the operator's clock the time of a sample may be."""
MOTIONLESS_SECONDS: Final = 20.0
"""Time without a step after which the requests of an engine are no load that another replica could take."""


@dataclass(frozen=True, slots=True)
class PodHistory:
    marks: tuple[EngineSample, ...]
    """Samples, oldest first. The last one is the newest sample; the others are at least 10 s apart."""
    kv: tuple[tuple[float, float], ...]
    """(beginning, highest KV fraction) of intervals of a few seconds, oldest first."""
    stepped_at: float
    """Time of the last sample that shows progress, or before which the engine had no request."""
    active_at: float
    """Time of the last sample in which the engine had a request or had counted one since the sample before. At first
    the time of the first sample, because nothing is known of the time before it."""
    received: EngineSample
    """The newest sample as it was received. That of `marks` lacks its counters while they are not trusted."""
    began_at: float
    """Time of the first sample."""
    restarts: int = 0
    """Restarts of the pod's containers when the newest sample was taken."""
    distrusted_at: float | None = None
    """When the counters were last implausible; None while they are trusted."""
    distrusted_because: str = ""

    @property
    def counts_requests(self) -> bool:
        """Whether the counters show a request that came and finished between two samples."""
        return self.newest.finished_requests is not None or self.newest.generation_tokens is not None

    @property
    def flow_span(self) -> tuple[EngineSample, EngineSample] | None:
        """The last two samples, from which the arrivals are computed; None while requests are not counted or make no
        progress."""
        if not _counted(self.marks) or self.newest.taken_at - self.stepped_at > MOTIONLESS_SECONDS:
            return None
        return self.marks[-2], self.marks[-1]

    @property
    def begins(self) -> bool:
        """Whether it is too new to have counted requests between two samples."""
        return self.newest.taken_at - self.began_at < UNCOUNTED_SECONDS

    @property
    def newest(self) -> EngineSample:
        return self.marks[-1]

    def smoothed_kv_fraction(self, since: float) -> float:
        """The highest KV fraction of the last minute, of readings at `since` or later."""
        return max((fraction for at, fraction in self.kv if at >= since), default=self.newest.kv_fraction)

    def oldest(self, since: float) -> EngineSample | None:
        """The oldest sample taken at `since` or later, from which rates are computed; None when there is none."""
        return next((mark for mark in self.marks[:-1] if mark.taken_at >= since), None)

    def motionless(self, seconds: float) -> bool:
        """Whether requests run or wait but the engine has made no step for so long.

        It hangs, though it may still report that it is healthy, or its metrics stand still. Only samples count, so
        missing metrics are never taken for a stall.
        """
        return _has_work(self.newest) and self.newest.taken_at - self.stepped_at > seconds


def is_sound(sample: EngineSample) -> bool:
    """Whether the gauges that scaling needs can be true; a sample with NaN or with 1e12 requests is dropped."""
    gauges = (sample.running_requests, sample.waiting_requests, sample.deferred_requests)
    return (
        isfinite(sample.taken_at)
        and all(0 <= gauge <= MOST_REQUESTS for gauge in gauges)
        and 0 <= sample.kv_fraction <= FULLEST
    )


def remember(
    history: PodHistory | None, sample: EngineSample, restarts: int = 0, bounds: EngineBounds = ANY_ENGINE
) -> PodHistory:
    """The history with one more sample; the same object when the sample is already known.

    Counters may begin anew only where `restarts` says that a container restarted.
    """
    if history is None:
        return _begun(sample, restarts)
    if sample.taken_at <= history.newest.taken_at:
        return history
    if restarts != history.restarts:
        return replace(_begun(sample, restarts), kv=_kv(history, sample))
    if leaps(history.received, sample):
        rejected = sample.taken_at - history.newest.taken_at < IMPLAUSIBLE_SECONDS
        return history if rejected else _begun(sample, restarts)
    why = why_implausible(history.received, sample, bounds)
    distrusted_at = sample.taken_at if why else history.distrusted_at
    if distrusted_at is not None and sample.taken_at - distrusted_at >= DISTRUST_SECONDS:
        return replace(_begun(sample, restarts), kv=_kv(history, sample))
    trusted = sample if distrusted_at is None else without_counters(sample)
    waits = _has_work(history.received) and _has_work(sample)
    moving = not waits or _made_progress(history.received, sample)
    return PodHistory(
        marks=_marks(history, trusted),
        kv=_kv(history, sample),
        stepped_at=sample.taken_at if moving else history.stepped_at,
        active_at=sample.taken_at if _had_requests(history.received, sample) else history.active_at,
        received=sample,
        began_at=history.began_at,
        restarts=restarts,
        distrusted_at=distrusted_at,
        distrusted_because=why or history.distrusted_because,
    )


def _begun(sample: EngineSample, restarts: int) -> PodHistory:
    why = why_invalid(sample)
    return PodHistory(
        marks=(without_counters(sample) if why else sample,),
        kv=((sample.taken_at, sample.kv_fraction),),
        stepped_at=sample.taken_at,
        active_at=sample.taken_at,
        received=sample,
        began_at=sample.taken_at,
        restarts=restarts,
        distrusted_at=sample.taken_at if why else None,
        distrusted_because=why,
    )


def _counted(marks: tuple[EngineSample, ...]) -> bool:
    """Whether the last two samples count requests."""
    return len(marks) > 1 and all(mark.finished_requests is not None for mark in marks[-2:])


def leaps(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether more requests arrived than an engine can accept, so that one of the two samples is wrong."""
    most = MOST_REQUESTS_PER_SECOND * (later.taken_at - earlier.taken_at)
    return _total_requests(later) - _total_requests(earlier) > most > 0


def _total_requests(sample: EngineSample) -> float:
    return (sample.finished_requests or 0.0) + (sample.rejected_requests or 0.0) + sample.in_flight


def _marks(history: PodHistory, sample: EngineSample) -> tuple[EngineSample, ...]:
    marks = list(history.marks)
    if len(marks) > 1 and sample.taken_at - marks[-2].taken_at < SPACING_SECONDS:
        marks.pop()
    marks.append(sample)
    while len(marks) > 1 and (
        marks[1].taken_at <= sample.taken_at - RATE_SECONDS or marks[0].taken_at < sample.taken_at - OLDEST_SECONDS
    ):
        marks.pop(0)
    return tuple(marks[-MOST_MARKS:])


def _kv(history: PodHistory, sample: EngineSample) -> tuple[tuple[float, float], ...]:
    recent = [(at, fraction) for at, fraction in history.kv if at > sample.taken_at - SMOOTHING_SECONDS]
    if recent and sample.taken_at - recent[-1][0] < SMOOTHING_SECONDS / MOST_MARKS:
        began, fraction = recent.pop()
        return (*recent, (began, max(fraction, sample.kv_fraction)))
    return (*recent, (sample.taken_at, sample.kv_fraction))


def _has_work(sample: EngineSample) -> bool:
    """Whether requests run or wait for capacity. Deferred ones wait for something else than steps."""
    return sample.running_requests + sample.waiting_requests > 0


def _made_progress(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether the engine made steps. It counts as stuck only if every known counter stands still."""
    counters = (
        (earlier.engine_steps, later.engine_steps),
        (earlier.generation_tokens, later.generation_tokens),
    )
    known = [(old, new) for old, new in counters if old is not None and new is not None]
    return not known or any(old != new for old, new in known)


def _had_requests(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether there were requests: in flight now, or counted between the two samples. A restart changes counts too."""
    return later.in_flight > 0 or _request_counters(earlier) != _request_counters(later)


def _request_counters(sample: EngineSample) -> tuple[float | None, ...]:
    return (sample.finished_requests, sample.rejected_requests, sample.prompt_tokens, sample.generation_tokens)
