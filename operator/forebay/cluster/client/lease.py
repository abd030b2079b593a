"""Leader election by a Lease: at most one operator writes, and a standby takes over when the leader stops renewing.

Clocks of different machines are never compared. The leader's term ends `renew_deadline` after it *sent* its last
successful renewal, even if its thread hangs. A standby acquires the lease only when it has *seen* no change of the
lease for `duration`. `duration` is longer than `renew_deadline`, so two terms never overlap.

The election has its own thread, event loop and connections, so that neither a busy planner nor a throttled client can
lose the lease.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from forebay.api.instants import micro_time
from forebay.cluster.client.access import AccessError
from forebay.cluster.client.kube_api import CONFLICT, LEASES, NOT_FOUND, ApiError, KubeApi
from forebay.cluster.read.projections import KubernetesObject, Projection, Reader

log = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""How long a graceful stop waits until the lease is released."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The times of client-go's leader election, in seconds."""

    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        """Raises ValueError when two processes could lead at once, or one could not renew in time."""
        if not 0 < self.retry_seconds < self.renew_deadline_seconds < self.duration_seconds:
            raise ValueError(f"lease times must grow from retry over renew deadline to duration, but are {self}")


def steady_clock() -> float:
    """A monotonic clock that, where the system has one, also counts while the machine sleeps.

    Otherwise closing a laptop would extend a term.
    """
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)


class ClosableApi(KubeApi, Protocol):
    async def close(self) -> None: ...


class _LeaseSpec(Projection):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    renew_time: str | None = None


class _LeaseObject(KubernetesObject):
    spec: _LeaseSpec = _LeaseSpec()


class Election:
    """The rules of the election, without threads: `attempt` is called every few seconds, `leading` at any time."""

    def __init__(
        self,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        monotonic: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`identity` must be unique to this process. `wall` (unix seconds) is only written into the Lease."""
        self._namespace = namespace
        self._name = name
        self.identity = identity
        self.times = times
        self._monotonic = monotonic
        self._wall = wall
        self._reader = Reader(_LeaseObject)
        self._leads_until = 0.0
        self._version: str | None = None
        """The resourceVersion of our last write; None when the lease must be read first."""
        self._observed: tuple[object, float] = (None, 0.0)
        """The state of the lease that a standby observed, and since when it has not changed."""

    @property
    def leading(self) -> bool:
        return self._monotonic() < self._leads_until

    @property
    def seconds_left(self) -> float:
        """Until the end of the term, if it is not renewed."""
        return self._leads_until - self._monotonic()

    @property
    def next_attempt_seconds(self) -> float:
        """Until the next attempt: the retry period, or less when another process's term ends earlier."""
        observed, since = self._observed
        if self.leading or observed is None:
            return self.times.retry_seconds
        left = since + self.times.duration_seconds - self._monotonic()
        return min(self.times.retry_seconds, left) if left > 0 else self.times.retry_seconds

    async def attempt(self, api: KubeApi) -> None:
        """Acquire or renew the lease, if possible now. Raises ApiError, or ValueError for an unreadable lease."""
        if self._version is not None and self.leading:
            try:
                await self._write(api, self._version, {})
                return
            except ApiError as error:
                self._version = None
                if error.status != CONFLICT:
                    raise
        try:
            live = self._reader.one(await api.get(LEASES, self._namespace, self._name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            await self._create(api)
            return
        spec = live.spec
        if spec.holder_identity == self.identity:
            await self._write(api, live.metadata.resource_version, {})
        elif not spec.holder_identity or self._has_expired(live):
            transitions = {
                "leaseTransitions": (spec.lease_transitions or 0) + 1,
                "acquireTime": micro_time(self._wall()),
            }
            await self._write(api, live.metadata.resource_version, transitions)
        else:
            self._leads_until = 0.0

    async def release(self, api: KubeApi) -> None:
        """Release the lease, so that a standby need not wait. The term ends before the request is sent."""
        self._leads_until = 0.0
        if self._version is None:
            return
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": micro_time(self._wall())}
        body = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        self._version = None
        await api.patch(LEASES, self._namespace, self._name, body)

    def _has_expired(self, live: _LeaseObject) -> bool:
        """Whether this process has seen no change of the lease for a whole term."""
        state = (live.spec.holder_identity, live.spec.renew_time, live.metadata.resource_version)
        now = self._monotonic()
        if self._observed[0] != state:
            self._observed = (state, now)
        term = max(self.times.duration_seconds, float(live.spec.lease_duration_seconds or 0))
        return now - self._observed[1] >= term

    async def _create(self, api: KubeApi) -> None:
        spec = {**self._spec(), "acquireTime": micro_time(self._wall()), "leaseTransitions": 0}
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        sent_at = self._monotonic()
        self._term_started(sent_at, await api.create(LEASES, self._namespace, body))

    async def _write(self, api: KubeApi, version: str, extra: Mapping[str, Any]) -> None:
        """Write the lease at the version that was read; of two concurrent writes, one gets a conflict."""
        body = {"metadata": {"resourceVersion": version}, "spec": {**self._spec(), **extra}}
        sent_at = self._monotonic()
        self._term_started(sent_at, await api.patch(LEASES, self._namespace, self._name, body))

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.times.duration_seconds),
            "renewTime": micro_time(self._wall()),
        }

    def _term_started(self, sent_at: float, answer: bytes) -> None:
        self._version = self._reader.one(answer).metadata.resource_version
        self._leads_until = sent_at + self.times.renew_deadline_seconds


class Leadership:
    """Runs the election on its own thread until a term is lost or `stop` is called. Callbacks run on that thread."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[ClosableApi]],
        *,
        namespace: str,
        name: str,
        identity: str,
        on_acquired: Callable[[], None] = lambda: None,
        on_lost: Callable[[str], None] = lambda reason: None,
        times: LeaseTimes | None = None,
        monotonic: Callable[[], float] = steady_clock,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`connect` returns a client for the lease alone; `on_lost` gets the reason when a term ends without `stop`."""
        self._connect = connect
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._election = Election(
            namespace=namespace,
            name=name,
            identity=identity,
            times=times or LeaseTimes(),
            monotonic=monotonic,
            wall=wall,
        )
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._stopping = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def leading(self) -> bool:
        """Whether this process may write right now. May be called from any thread."""
        return self._election.leading

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Release the lease and end the thread; blocks for at most `STOP_SECONDS`."""
        self._stopping.set()
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # the event loop is closed, so the thread has ended
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except (Exception, asyncio.CancelledError) as error:  # a stop sets an event, so no cancellation is ours
            log.exception("the lease thread failed")
            self._on_lost(f"the lease thread failed: {error!r}")

    async def _main(self) -> None:
        stop = asyncio.Event()
        self._loop, self._stop = asyncio.get_running_loop(), stop
        if self._stopping.is_set():
            stop.set()
        while not stop.is_set():
            try:
                api = await self._connect()
            except AccessError as error:
                log.warning("the lease client cannot connect: %s", error)
                await self._pause(self._election.times.retry_seconds, stop)
                continue
            try:
                await self.contend(api, stop)
                return
            finally:
                await api.close()

    async def contend(self, api: KubeApi, stop: asyncio.Event) -> None:
        """Repeat attempts until a term is lost or `stop` is set; after `stop`, release the lease."""
        election = self._election
        led = False
        while not stop.is_set():
            reason = await self._attempt(api, election)
            if election.leading and not led:
                led = True
                log.info("acquired the lease as %s", election.identity)
                self._on_acquired()
            if led and not election.leading:
                log.error("lost the lease: %s", reason)
                self._on_lost(reason)
                return
            await self._pause(election.next_attempt_seconds, stop)
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(STOP_SECONDS / 2):
                await election.release(api)

    async def _attempt(self, api: KubeApi, election: Election) -> str:
        """Make one attempt within the term; returns why it would have failed, for the case that the term is lost."""
        limit = election.times.renew_deadline_seconds / 2
        if election.leading:
            limit = min(limit, max(election.seconds_left, 0.0))
        try:
            async with asyncio.timeout(limit):
                await election.attempt(api)
        except TimeoutError:
            return f"the API server did not answer within {limit:.1f} s"
        except (ApiError, ValueError) as error:
            log.log(logging.WARNING if election.leading else logging.DEBUG, "the lease: %s", error)
            return str(error)
        return "another process holds the lease"

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Wait, but not beyond the end of the term, so that `on_lost` is called at once."""
        if self._election.leading:
            seconds = min(seconds, max(self._election.seconds_left, 0.0))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
