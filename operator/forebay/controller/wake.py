"""Wake: tells the loop that something changed, from any thread, and lets a burst of changes cause one tick.

A wake carries no data: the tick reads the world anew, so a lost or doubled wake costs time, never correctness.
"""

import asyncio
from collections import Counter
from contextlib import suppress


class Wake:
    """Collects reasons; `next` returns when the loop should tick.

    The debounce counts from the first change, not from the last: a stream of changes delays a tick by at most one
    debounce, and cannot starve it.
    """

    def __init__(self, debounce_seconds: float) -> None:
        self._debounce_seconds = debounce_seconds
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        """Set when the change that came is a whole burst already, so that there is nothing to wait for."""
        self._stopped = asyncio.Event()
        self._reasons: Counter[str] = Counter()

    def wake(self, reason: str, *, settled: bool = False) -> None:
        """From the loop's own thread; `settled` for what is a burst by itself, such as a round of scrapes."""
        self._reasons[reason] += 1
        if settled:
            self._settled.set()
        self._changed.set()

    def wake_from_thread(self, reason: str) -> None:
        """From any other thread; after the loop has closed it does nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.wake, reason)

    def stop(self) -> None:
        """End the present wait and every later one at once."""
        for event in (self._stopped, self._settled, self._changed):
            event.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    async def next(self, at_most_seconds: float) -> tuple[str, ...]:
        """Wait for a change and its debounce, or for `at_most_seconds`; the reasons in order of first appearance."""
        if await _within(self._changed, at_most_seconds):
            await _within(self._settled, self._debounce_seconds)
        reasons = tuple(self._reasons)
        self._reasons.clear()
        if not self.stopped:
            self._changed.clear()
            self._settled.clear()
        return reasons

    async def pause(self, seconds: float) -> None:
        """Wait in full whatever changes, as after an error; only `stop` ends it early."""
        await _within(self._stopped, seconds)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event was set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
