"""ServiceWatch: runs kopf on its own thread and restarts it whenever it ends.

When kopf stops, it cancels every asyncio task that is younger than itself, the loop's included; hence the thread. The
watch only makes the loop react sooner: each tick reads the services from the observer's own cache anyway.
"""

import asyncio
import logging
import threading
from collections.abc import Callable

import kopf

log = logging.getLogger(__name__)

RESTART_SECONDS = 5.0


class ServiceWatch:
    """Waits for `allow_start` before each start: kopf looks for the CRD only once, so it must be served by then."""

    def __init__(
        self,
        build_registry: Callable[[], kopf.OperatorRegistry],
        namespace: str | None,
        restart_seconds: float = RESTART_SECONDS,
    ) -> None:
        self._build_registry = build_registry
        self._namespace = namespace
        self._restart_seconds = restart_seconds
        self._start_allowed = threading.Event()
        self.waiting_for_list = threading.Event()
        """Set while the thread waits for `allow_start`."""
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_flag: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="service-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def allow_start(self) -> None:
        """Call this when InferenceServices have been listed."""
        self._start_allowed.set()

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stopping.set()
        self._start_allowed.set()
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
            self.waiting_for_list.set()
            self._start_allowed.wait()
            self.waiting_for_list.clear()
            if self._stopping.is_set():
                return
            try:
                asyncio.run(self._watch())
            # kopf raises whatever its tasks raised, including a cancellation that this class did not ask for: `stop`
            # sets a flag and cancels nothing. A restart recovers from both.
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
                log.warning("the watch on services failed: %r", error)
            self._stopping.wait(self._restart_seconds)
            self._start_allowed.clear()

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
                # Without an identity kopf looks up the user's name, and a container's numeric user has none.
                identity="forebay",  # type: ignore[arg-type] # a NewType of str that kopf keeps private
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace else [],
                stop_flag=self._stop_flag,
            )
        finally:
            with self._lock:
                self._loop = self._stop_flag = None
