"""Shutdown: decides once why the process ends, whichever thread asks first.

A process ends in one of two ways. A graceful stop finishes the work in progress and exits 0. A fatal cause (a lost
lease, a broken part of the process) ends the process at once with another exit code, and the kubelet restarts it. In
both cases a timer kills the process if it hangs.
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

HARD_STOP_SECONDS = 10.0
"""The process kills itself this long after the decision to end; a pod's grace period is 30 s."""

EXIT_OK = 0
EXIT_BROKEN = 4
EXIT_HUNG = 5
"""Codes of every process; 1 to 3 are left to each process's own causes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the process ends, and the exit code that says so."""

    code: int
    reason: str

    @property
    def graceful(self) -> bool:
        return self.code == EXIT_OK


class Shutdown:
    """Keeps the first cause; later ones change nothing. Create it inside the running event loop."""

    def __init__(self, kill: Callable[[int], None] = os._exit, hard_stop_seconds: float = HARD_STOP_SECONDS) -> None:
        self._loop = asyncio.get_running_loop()
        self._decided: asyncio.Future[Cause] = self._loop.create_future()
        self._kill = kill
        self._hard_stop_seconds = hard_stop_seconds

    def listen_to_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.end, EXIT_OK, f"{number.name} received")

    def end(self, code: int, reason: str) -> None:
        """Decide to end. Call it from the event loop's own thread."""
        if self._decided.done():
            return
        self._decided.set_result(Cause(code, reason))
        log.log(logging.INFO if code == EXIT_OK else logging.ERROR, "stopping: %s", reason, extra={"exit_code": code})
        timer = threading.Timer(self._hard_stop_seconds, self._kill, (code or EXIT_HUNG,))
        timer.daemon = True
        timer.start()

    def end_from_thread(self, code: int, reason: str) -> None:
        """Decide to end, from any other thread."""
        with suppress(RuntimeError):  # the event loop is closed, so the process has already ended
            self._loop.call_soon_threadsafe(self.end, code, reason)

    async def decided(self) -> Cause:
        """Wait until the process is to end."""
        return await asyncio.shield(self._decided)
