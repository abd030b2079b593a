"""Pod history: the samples of one pod that are kept to compute rates over the last minute.

The size is bounded: at most `MOST_MARKS` samples and as many KV readings, at any scrape interval.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Final

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
IMPLAUSIBLE_SECONDS: Final = 60.0
"""Time for which samples with an implausible counter are rejected. After it, the counter is accepted and the history
before it is dropped."""


@dataclass(frozen=True, slots=True)
class PodHistory:
    marks: tuple[EngineSample, ...]
    """Samples, oldest first. The last one is the newest sample; the others are at least 10 s apart."""
    kv: tuple[tuple[float, float], ...]
    """(beginning, highest KV fraction) of intervals of a few seconds, oldest first."""
    stepped_at: float
    """Time of the last sample in which the engine made progress or had no request."""
    active_at: float
    """Time of the last sample in which the engine had a request or had counted one since the sample before. At first
    the time of the first sample, because nothing is known of the time before it."""

    @property
    def counts_requests(self) -> bool:
        """Whether the counters show a request that came and finished between two samples."""
        return self.newest.finished_requests is not None or self.newest.generation_tokens is not None

    @property
    def newest(self) -> EngineSample:
        return self.marks[-1]

    def smoothed_kv_fraction(self, since: float) -> float:
        """The highest KV fraction of the last minute, of readings at `since` or later."""
        return max((fraction for at, fraction in self.kv if at >= since), default=self.newest.kv_fraction)

    def oldest(self, since: float) -> EngineSample | None:
        """The oldest sample taken at `since` or later, from which rates are computed; None when there is none."""
        return next((mark for mark in self.marks[:-1] if mark.taken_at >= since), None)

    def stalled(self, stall_after_seconds: float) -> bool:
        """Whether requests run but the engine makes no steps: it hangs, though it may still report that it is healthy.

        Only samples count, so missing metrics are never taken for a stall.
        """
        newest = self.newest
        return newest.running_requests > 0 and newest.taken_at - self.stepped_at > stall_after_seconds


def is_sound(sample: EngineSample) -> bool:
    """Whether the gauges that scaling needs are finite; a sample with NaN in them is dropped."""
    return all(isfinite(v) for v in (sample.running_requests, sample.waiting_requests, sample.kv_fraction))


def remember(history: PodHistory | None, sample: EngineSample) -> PodHistory:
    """The history with one more sample; the same object when the sample is already known."""
    if history is None:
        return PodHistory((sample,), ((sample.taken_at, sample.kv_fraction),), sample.taken_at, sample.taken_at)
    if sample.taken_at <= history.newest.taken_at:
        return history
    if leaps(history.newest, sample):
        rejected = sample.taken_at - history.newest.taken_at < IMPLAUSIBLE_SECONDS
        return history if rejected else remember(None, sample)
    return PodHistory(
        marks=_marks(history, sample),
        kv=_kv(history, sample),
        stepped_at=sample.taken_at if _made_progress(history.newest, sample) else history.stepped_at,
        active_at=sample.taken_at if _had_requests(history.newest, sample) else history.active_at,
    )


def leaps(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether more requests arrived than an engine can accept, so that one of the two samples is wrong."""
    most = MOST_REQUESTS_PER_SECOND * (later.taken_at - earlier.taken_at)
    return _total_requests(later) - _total_requests(earlier) > most > 0


def _total_requests(sample: EngineSample) -> float:
    return (sample.finished_requests or 0.0) + (sample.rejected_requests or 0.0) + sample.in_flight


def _marks(history: PodHistory, sample: EngineSample) -> tuple[EngineSample, ...]:
    if _restarted(history.newest, sample):
        return (sample,)
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


def _restarted(earlier: EngineSample, later: EngineSample) -> bool:
    """A counter that goes down means that the process restarted."""
    return any(
        old is not None and new is not None and new < old
        for old, new in (
            (earlier.generation_tokens, later.generation_tokens),
            (earlier.finished_requests, later.finished_requests),
            (earlier.engine_steps, later.engine_steps),
        )
    )


def _made_progress(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether the engine made steps or has no request. It counts as stuck only if no known counter changes."""
    if later.running_requests <= 0:
        return True
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
