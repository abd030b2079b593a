"""WorkerProcess: one scrape worker, seen from the operator, and started again whenever it ends."""

import asyncio
import logging
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.worker_pipe import News, Start, Targets, frame, read_message
from forebay.telemetry.scrape_statistics import ScrapeStatistics, together
from forebay.telemetry.signal_source import Clock, ScrapeTarget

logger = logging.getLogger(__name__)

SILENT_SECONDS: Final = 30.0
"""A worker that says nothing for this long hangs; it speaks every 5 s even without news."""
SHORTEST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
SETTLED_SECONDS: Final = 60.0
"""A worker that has lived this long had no trouble to start."""
MOST_BUFFERED_BYTES: Final = 1 << 20


class WorkerProcess:
    """`run` keeps the worker alive until `stop`."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        start: Start,
        *,
        clock: Clock,
        on_news: Callable[[Mapping[str, PodSignals]], None],
        on_end: Callable[[str], None],
    ) -> None:
        """`on_end` gets the reason, as a clause, when the worker has ended without having been asked to."""
        self.number = number
        self._command = command
        self._start = start
        self._clock = clock
        self._on_news = on_news
        self._on_end = on_end
        self._targets: tuple[ScrapeTarget, ...] = ()
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._statistics: ScrapeStatistics | None = None
        self._ended: ScrapeStatistics | None = None
        self.ends = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def statistics(self) -> tuple[ScrapeStatistics, ...]:
        """Those of this worker and of the ones before it; empty before its first news."""
        return tuple(part for part in (self._ended, self._statistics) if part is not None)

    def aim(self, targets: tuple[ScrapeTarget, ...]) -> None:
        """Scrape these engines from the next round on."""
        if targets != self._targets:
            self._targets = targets
            self._order()

    def stop(self) -> None:
        """Make `run` return soon: a worker ends when its pipe is closed."""
        self._stopping.set()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began = self._clock.monotonic()
            why = await self._live()
            if self._stopping.is_set():
                return
            self.ends += 1
            failures = 0 if self._clock.monotonic() - began >= SETTLED_SECONDS else failures + 1
            pause_seconds = min(LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS * 2.0 ** min(failures, 16))
            logger.warning("scrape worker %d %s; next one in %g s", self.number, why, pause_seconds)
            self._on_end(why)
            await self._clock.pause(pause_seconds, self._stopping)

    async def _live(self) -> str:
        """The life of one process. Returns how it ended, as a clause."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=PIPE, stdout=PIPE, limit=MOST_BUFFERED_BYTES
            )
        except OSError as error:
            return f"could not be started: {error}"
        self._process = process
        try:
            if self._stopping.is_set():
                return "was stopped"
            assert process.stdin is not None
            process.stdin.write(frame(self._start))
            self._order()
            return await self._listen(process)
        finally:
            self._process = None
            if self._statistics is not None:
                self._ended, self._statistics = together(self.statistics()).totals, None
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _listen(self, process: Process) -> str:
        assert process.stdout is not None
        while True:
            try:
                message = await asyncio.wait_for(read_message(process.stdout), SILENT_SECONDS)
            except TimeoutError:
                return f"said nothing for {SILENT_SECONDS:g} s"
            if not isinstance(message, News):
                return f"ended with status {await process.wait()}"
            self._statistics = message.statistics
            if message.signals:
                self._on_news(message.signals)

    def _order(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(frame(Targets(self._targets)))
