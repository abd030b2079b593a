"""ServiceWatch: kopf on a thread of its own, started again whenever it ends.

On its own thread because kopf, when it stops, cancels every asyncio task younger than itself, the loop's included. It
only makes the loop quicker: without it every service is still read by LIST on each tick.
"""

import asyncio
import logging
import threading
from collections.abc import Callable

import kopf

log = logging.getLogger(__name__)

RESTART_SECONDS = 5.0


class ServiceWatch:
    """Waits for `allow` before each start: kopf looks for our kind only once, so the CRD must be served by then."""

    def __init__(
        self,
        build_registry: Callable[[], kopf.OperatorRegistry],
        namespace: str | None,
        restart_seconds: float = RESTART_SECONDS,
    ) -> None:
        self._build_registry = build_registry
        self._namespace = namespace
        self._restart_seconds = restart_seconds
        self._allowed = threading.Event()
        self.waits_for_a_list = threading.Event()
        """Set while only `allow` is missing for a start."""
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_flag: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="service-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def allow(self) -> None:
        """A LIST of our kind has just succeeded."""
        self._allowed.set()

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        self._stopping.set()
        self._allowed.set()
        with self._lock:
            if self._loop is not None and self._stop_flag is not None:
                self._loop.call_soon_threadsafe(self._stop_flag.set)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.waits_for_a_list.set()
            self._allowed.wait()
            self.waits_for_a_list.clear()
            if self._stopping.is_set():
                return
            try:
                asyncio.run(self._watch())
            # kopf raises whatever its tasks raised, a cancellation that nobody here asked for included. Our own stop
            # cancels nothing, it sets a flag. So a new start cures both.
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                log.warning("the watch on services broke off: %r", error)
            self._stopping.wait(self._restart_seconds)
            self._allowed.clear()

    async def _watch(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._stop_flag = asyncio.Event()
        if self._stopping.is_set():
            self._stop_flag.set()
        try:
            await kopf.operator(
                registry=self._build_registry(),
                settings=kopf.OperatorSettings(),
                # Else kopf asks the system for the user's name, and a container's numeric user has none.
                identity="forebay",  # type: ignore[arg-type] # a NewType of str that kopf keeps private
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace else [],
                stop_flag=self._stop_flag,
            )
        finally:
            with self._lock:
                self._loop = self._stop_flag = None
