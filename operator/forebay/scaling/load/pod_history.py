"""What is remembered of one pod's samples: enough for the rates of the last minute, and no more.

Bounded: at most `MOST_MARKS` samples and as many KV readings, whatever the pace of scraping.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Final

from forebay.scaling.load.signals import EngineSample

RATE_SECONDS: Final = 60.0
"""Latencies are read over so long."""
SMOOTHING_SECONDS: Final = 60.0
"""KV use saw-tooths (0.47 to 0.99 within 10 s were measured at constant overload): its maximum over so long counts."""
OLDEST_SECONDS: Final = 120.0
"""A sample that is older than this, because none came in between, says nothing about the last minute."""
SPACING_SECONDS: Final = 10.0
MOST_MARKS: Final = 13
MOST_REQUESTS_PER_SECOND: Final = 5_000.0
"""No pod's HTTP servers take in more. Numbers that say so are wrong, and would order a fleet."""
DOUBT_SECONDS: Final = 60.0
"""Numbers that have leapt and stay there are a new beginning: what they are compared with is given up."""


@dataclass(frozen=True, slots=True)
class PodHistory:
    marks: tuple[EngineSample, ...]
    """Oldest first, the last one the newest sample; the others at least 10 s apart."""
    kv: tuple[tuple[float, float], ...]
    """(beginning, highest KV fraction) of spans of some seconds, oldest first."""
    stepped_at: float
    """When the engine was last seen to make progress, or to have nothing to do."""
    active_at: float
    """When it last had a request, or had counted one since the sample before; the first sample, as nothing is known of
    the time before it."""

    @property
    def counts_requests(self) -> bool:
        """Whether a request that came and went between two samples would be seen."""
        return self.newest.finished_requests is not None or self.newest.generation_tokens is not None

    @property
    def newest(self) -> EngineSample:
        return self.marks[-1]

    def smoothed_kv_fraction(self, since: float) -> float:
        """The highest of the last minute, as far as it was read at `since` or later."""
        return max((fraction for at, fraction in self.kv if at >= since), default=self.newest.kv_fraction)

    def oldest(self, since: float) -> EngineSample | None:
        """The sample that rates of the last minute are counted from, taken at `since` or later; None for no such."""
        return next((mark for mark in self.marks[:-1] if mark.taken_at >= since), None)

    def stalled(self, stall_after_seconds: float) -> bool:
        """Requests run and no step is made: the engine hangs, though it may still call itself healthy.

        Told from samples alone, so that silence is never taken for a stall.
        """
        newest = self.newest
        return newest.running_requests > 0 and newest.taken_at - self.stepped_at > stall_after_seconds


def is_sound(sample: EngineSample) -> bool:
    """Whether the deciding values are numbers; a sample with NaN in it is no sample."""
    return all(isfinite(v) for v in (sample.running_requests, sample.waiting_requests, sample.kv_fraction))


def remember(history: PodHistory | None, sample: EngineSample) -> PodHistory:
    """The history with one more sample; the same object when the sample is the one already known."""
    if history is None:
        return PodHistory((sample,), ((sample.taken_at, sample.kv_fraction),), sample.taken_at, sample.taken_at)
    if sample.taken_at <= history.newest.taken_at:
        return history
    if leaps(history.newest, sample):
        doubted = sample.taken_at - history.newest.taken_at < DOUBT_SECONDS
        return history if doubted else remember(None, sample)
    return PodHistory(
        marks=_marks(history, sample),
        kv=_kv(history, sample),
        stepped_at=sample.taken_at if _made_progress(history.newest, sample) else history.stepped_at,
        active_at=sample.taken_at if _was_asked(history.newest, sample) else history.active_at,
    )


def leaps(earlier: EngineSample, later: EngineSample) -> bool:
    """Whether more requests came in between than an engine takes in: a count that is wrong, now or before."""
    most = MOST_REQUESTS_PER_SECOND * (later.taken_at - earlier.taken_at)
    return _taken_in(later) - _taken_in(earlier) > most > 0


def _taken_in(sample: EngineSample) -> float:
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
    """A counter that goes down can only mean that the process began anew."""
    return any(
        old is not None and new is not None and new < old
        for old, new in (
            (earlier.generation_tokens, later.generation_tokens),
            (earlier.finished_requests, later.finished_requests),
            (earlier.engine_steps, later.engine_steps),
        )
    )


def _made_progress(earlier: EngineSample, later: EngineSample) -> bool:
    """Only a counter that was read twice and stood still speaks against it."""
    if later.running_requests <= 0:
        return True
    counters = (
        (earlier.engine_steps, later.engine_steps),
        (earlier.generation_tokens, later.generation_tokens),
    )
    known = [(old, new) for old, new in counters if old is not None and new is not None]
    return not known or any(old != new for old, new in known)


def _was_asked(earlier: EngineSample, later: EngineSample) -> bool:
    """Requests that came and went between the two samples show in the counters; so does a process that began anew."""
    return later.in_flight > 0 or _request_counters(earlier) != _request_counters(later)


def _request_counters(sample: EngineSample) -> tuple[float | None, ...]:
    return (sample.finished_requests, sample.rejected_requests, sample.prompt_tokens, sample.generation_tokens)
