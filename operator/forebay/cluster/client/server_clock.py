"""ServerClock: the time of the API server, kept from the `Date` of its answers and a monotonic clock.

The stamps of objects (creations, transitions of conditions, starts of drains) are compared with the time that wrote
them. A local clock that is wrong, or that jumps, therefore changes no decision: it is read once at the start, for the
time before the first answer, and after that only to report how far it is off.

A `Date` is cut to whole seconds and was written between the request and the answer, so each answer bounds the
difference between the two clocks by an interval. The estimate moves only as far as the newest interval demands. A late
answer has a wide interval and moves nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from forebay.cluster.client.lease import steady_clock

log = logging.getLogger(__name__)

DATE_SECONDS: Final = 1.0
"""The resolution of a `Date`."""
LARGEST_CORRECTION_SECONDS: Final = 5.0
"""A larger difference is no error of the estimate: the server's clock was set, or this process was suspended."""
ANSWERS_TO_CONFIRM: Final = 3
"""One wrong `Date`, such as that of a proxy, moves nothing."""
STEPS_KEPT: Final = 4
LONGEST_DOUBT_SECONDS: Final = 30.0
"""After this time the newest answer is believed even if no two answers agree."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of the server's time minus the monotonic time."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def nearest(self, offset: float) -> float:
        return min(max(offset, self.low), self.high)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Answers that agree with each other, but not with the estimate."""

    offset: float
    answers: int
    since: float
    """Monotonic time of the first answer that did not agree with the estimate."""


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The server's clock was set."""

    seconds: float
    ended_at: float
    """The server's time at which the old clock had ended at the latest, by the old clock."""
    began_at: float
    """The server's time at which the new clock began at the earliest, by the new clock."""


class ServerClock:
    """May be read from any thread. `now` never goes backwards, unless the server's clock was set back."""

    def __init__(self, *, monotonic: Callable[[], float] = steady_clock, wall: Callable[[], float] = time.time) -> None:
        self.monotonic = monotonic
        self._wall = wall
        self._offset = wall() - monotonic()
        self._error_seconds = 0.0
        """How far the estimate may be off: half the width of the narrowest interval so far."""
        self._known = False
        """Whether the server has answered; until then the offset is that of the local clock."""
        self._doubt: Doubt | None = None
        self._agreed_at = 0.0
        """Monotonic time of the last answer that agreed with the estimate."""
        self._steps = 0
        self._last_steps: tuple[ClockStep, ...] = ()
        self._shown = float("-inf")
        self._reported_skew_seconds = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        """Unix seconds by the API server's clock; by the local clock at the start until the server has answered."""
        with self._lock:
            self._shown = max(self._shown, self._offset + self.monotonic())
            return self._shown

    @property
    def steps(self) -> int:
        """How often the server's clock was set. Times from before a step cannot be compared with later ones."""
        return self._steps

    def present(self, stamp: float) -> float:
        """A stamp of the server, moved to its present clock if it was written before a step.

        After a step back, a stamp that both clocks have shown counts as one of the present clock.
        """
        moved_by, latest = 0.0, self.now()
        for step in reversed(self._last_steps):
            if step.began_at - DATE_SECONDS <= stamp <= latest + DATE_SECONDS:
                break
            moved_by += step.seconds
            latest = step.ended_at
        return stamp + moved_by

    @property
    def in_doubt(self) -> bool:
        """Whether the last answers do not fit the estimate, and too few of them agree to believe them."""
        return self._doubt is not None

    def skew_seconds(self) -> float | None:
        """How far the local clock is ahead of the server's; None until the server has answered."""
        if not self._known:
            return None
        return self._wall() - self._offset - self.monotonic()

    def answered(self, date: str | None, sent_at: float, received_at: float) -> None:
        """Learn from the `Date` header of an answer; the times are of the monotonic clock."""
        written_at = _unix_seconds(date)
        if written_at is None:
            return
        interval = Interval(written_at - received_at, written_at + DATE_SECONDS - sent_at)
        with self._lock:
            self._learn(interval, received_at)
        self._report_skew()

    def _learn(self, interval: Interval, at: float) -> None:
        if not self._known:
            self._known = True
            self._set(interval.middle, interval, at)
        elif _agree(interval, self._offset, self._error_seconds):
            self._offset = interval.nearest(self._offset)
            self._agreed_at = at
            self._error_seconds = min(self._error_seconds, interval.half_width)
            self._doubt = None
        else:
            self._question(interval, at)

    def _question(self, interval: Interval, at: float) -> None:
        """Count an answer that does not fit the estimate, and believe it when it is confirmed."""
        doubt = self._doubt
        if doubt is not None and _agree(interval, doubt.offset):
            doubt = Doubt(interval.nearest(doubt.offset), doubt.answers + 1, doubt.since)
        else:
            doubt = Doubt(interval.middle, 1, at if doubt is None else doubt.since)
        self._doubt = doubt
        if doubt.answers < ANSWERS_TO_CONFIRM and at - doubt.since < LONGEST_DOUBT_SECONDS:
            return
        log.warning(
            "the API server's clock moved by %+.0f s; elapsed times begin anew, as with a new leader",
            doubt.offset - self._offset,
        )
        step = ClockStep(doubt.offset - self._offset, self._offset + doubt.since, doubt.offset + self._agreed_at)
        self._last_steps = (*self._last_steps, step)[-STEPS_KEPT:]
        self._steps += 1
        self._set(doubt.offset, interval, at)

    def _set(self, offset: float, interval: Interval, at: float) -> None:
        self._offset = offset
        self._agreed_at = at
        self._error_seconds = interval.half_width
        self._shown = float("-inf")
        self._doubt = None

    def _report_skew(self) -> None:
        """Log the difference between the clocks once, and again when it has changed."""
        skew_seconds = self.skew_seconds()
        if skew_seconds is None or abs(skew_seconds - self._reported_skew_seconds) <= LARGEST_CORRECTION_SECONDS:
            return
        self._reported_skew_seconds = skew_seconds
        if is_skewed(skew_seconds):
            log.warning("%s; decisions follow the API server's clock", skew_text(skew_seconds))
        else:
            log.info("the operator's clock agrees with the API server's again")


def is_skewed(skew_seconds: float | None) -> bool:
    return skew_seconds is not None and abs(skew_seconds) > LARGEST_CORRECTION_SECONDS


def skew_text(skew_seconds: float) -> str:
    """The difference between the clocks as a clause."""
    direction = "ahead of" if skew_seconds > 0 else "behind"
    return f"the operator's clock is {abs(skew_seconds):.0f} s {direction} the API server's"


def _agree(interval: Interval, offset: float, error_seconds: float = 0.0) -> bool:
    return abs(interval.nearest(offset) - offset) <= LARGEST_CORRECTION_SECONDS + error_seconds


def _unix_seconds(date: str | None) -> float | None:
    """The time of an HTTP date; None when there is none, or it cannot be read."""
    if not date:
        return None
    try:
        written = parsedate_to_datetime(date)
        # An HTTP date is always GMT (RFC 9110); any other text gives a time without a zone, or none.
        return written.timestamp() if written.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
