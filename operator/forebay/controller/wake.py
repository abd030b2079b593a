"""Wake: tells the loop from any thread that something has changed; a burst of changes causes one tick.

A wake carries no data, since the tick reads the World afresh. A lost or repeated wake costs time, never correctness.
"""

import asyncio
from collections import Counter
from contextlib import suppress


class Wake:
    """Collects reasons; `next` returns when the loop should tick.

    The debounce is measured from the first change, not from the last, so a stream of changes delays a tick by at most
    one debounce and cannot starve it.
    """

    def __init__(self, debounce_seconds: float) -> None:
        self._debounce_seconds = debounce_seconds
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._debounce_skipped = asyncio.Event()
        """Set when the next tick need not wait for the debounce."""
        self._stopped = asyncio.Event()
        self._reasons: Counter[str] = Counter()

    def wake(self, reason: str, *, skip_debounce: bool = False) -> None:
        """Wake the loop from its own thread.

        `skip_debounce` is for a change that collects a whole burst itself, such as a round of scrapes.
        """
        self._reasons[reason] += 1
        if skip_debounce:
            self._debounce_skipped.set()
        self._changed.set()

    def wake_from_thread(self, reason: str) -> None:
        """Wake the loop from any other thread; does nothing after the event loop has closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake, reason)

    def stop(self) -> None:
        """End the current wait and all later ones at once."""
        for event in (self._stopped, self._debounce_skipped, self._changed):
            event.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    async def next(self, at_most_seconds: float) -> tuple[str, ...]:
        """Wait for a change and the debounce, or for `at_most_seconds`; returns the reasons, the earliest first."""
        if await _is_set_within(self._changed, at_most_seconds):
            await _is_set_within(self._debounce_skipped, self._debounce_seconds)
        reasons = tuple(self._reasons)
        self._reasons.clear()
        if not self.stopped:
            self._changed.clear()
            self._debounce_skipped.clear()
        return reasons

    async def pause(self, seconds: float) -> None:
        """Wait the full time even when something changes, as after an error; only `stop` ends it early."""
        await _is_set_within(self._stopped, seconds)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event; False when it was not set within that many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
