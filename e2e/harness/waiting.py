"""Waits for a condition instead of a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS = 0.1


class NotReachedError(AssertionError):
    """A condition did not become true in time; the message contains the last value."""


def eventually(
    read: Callable[[], T],
    accept: Callable[[T], object] = bool,
    *,
    within: float,
    what: str,
    pause: float = PAUSE_SECONDS,
) -> T:
    """Reads until `accept` returns True, and returns the last value.

    `within` is in seconds. An exception from `read` or `accept` is not a "no": it ends the wait, because a typing
    error must not look like a slow cluster.
    """
    deadline = time.monotonic() + within
    while True:
        seen = read()
        if accept(seen):
            return seen
        if time.monotonic() >= deadline:
            raise NotReachedError(f"{what}: not within {within:g} s; seen last: {_short(seen)}")
        time.sleep(pause)


def _short(seen: object, longest: int = 2000) -> str:
    text = repr(seen)
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text)} characters)"
