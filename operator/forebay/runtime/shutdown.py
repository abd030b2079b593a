"""Ending: why and how the process is to end, from whichever thread says so first.

There are two ways. A stop lets the tick that runs finish, gives the lease back and exits 0. A loss (of the lease, or of
a part of the process that must not die) ends at once with another exit code: kubelet starts us again. Either way a
timer makes sure of the end.
"""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

log = logging.getLogger(__name__)

STOP_SECONDS = 6.0
"""For the tick that runs; giving the lease back may take 2.5 s more."""
HARD_STOP_SECONDS = 10.0
"""After which the process is ended from within; a pod's grace period is 30 s."""

EXIT_OK = 0
EXIT_ACCESS = 1
EXIT_LEASE_LOST = 3
EXIT_BROKEN = 4
EXIT_HUNG = 5


@dataclass(frozen=True, slots=True)
class Cause:
    code: int
    reason: str

    @property
    def graceful(self) -> bool:
        return self.code == EXIT_OK


class Shutdown:
    """The first cause counts; later ones change nothing."""

    def __init__(self, kill: Callable[[int], None] = os._exit, hard_stop_seconds: float = HARD_STOP_SECONDS) -> None:
        self._loop = asyncio.get_running_loop()
        self._decided: asyncio.Future[Cause] = self._loop.create_future()
        self._kill = kill
        self._hard_stop_seconds = hard_stop_seconds

    def listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.end, EXIT_OK, f"{number.name} received")

    def end(self, code: int, reason: str) -> None:
        """From the loop's own thread."""
        if self._decided.done():
            return
        self._decided.set_result(Cause(code, reason))
        log.log(logging.INFO if code == EXIT_OK else logging.ERROR, "stopping: %s", reason, extra={"exit_code": code})
        timer = threading.Timer(self._hard_stop_seconds, self._kill, (code or EXIT_HUNG,))
        timer.daemon = True
        timer.start()

    def end_from_thread(self, code: int, reason: str) -> None:
        with suppress(RuntimeError):  # the loop has closed: the process has ended already
            self._loop.call_soon_threadsafe(self.end, code, reason)

    async def decided(self) -> Cause:
        return await asyncio.shield(self._decided)
