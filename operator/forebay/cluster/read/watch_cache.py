"""WatchCache: the current objects of one resource, kept by LIST and WATCH.

A watch can fail unnoticed: it goes silent, it misses changes while it is down, or it ends with an error inside its own
stream. So silence has a limit (bookmarks come every minute), an expired resourceVersion causes a new LIST, and a full
LIST every ten minutes corrects whatever was missed. The answers to our own writes are stored too, so the next plan
does not have to wait for the watch.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from forebay.cluster.client.kube_api import GONE, ApiError, KubeApi, Resource
from forebay.cluster.read.projections import KubernetesObject, Reader, Unreadable, WatchEvent, full_name

log = logging.getLogger(__name__)

M = TypeVar("M", bound=KubernetesObject)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class WatchPace:
    """The time limits of a watch cache, in seconds."""

    silence_seconds: float = 90.0
    """Bookmarks come about every 60 s, so a watch that is silent for longer is broken even if its socket is open."""
    relist_seconds: float = 600.0
    shortest_backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 30.0
    failures_until_relist: int = 3
    """After this many watches without any event, a LIST keeps the cache current."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[M, V]):
    """Which objects a cache keeps, and the view that readers get of each."""

    resource: Resource
    model: type[M]
    view: Callable[[M], V]
    label_selector: str = ""
    namespace: str | None = None
    same_view: Callable[[V, V], bool] = lambda old, new: old == new
    """Whether two views are the same for the reader; such a change does not wake the loop."""
    accepts: Callable[[M], bool] = lambda stored: True
    """Whether the answer to a write belongs to this cache, when several caches share a resource."""
    otherwise: str = ""
    """What the operator does without these objects, as a clause; empty when it cannot plan without them."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    version: str
    view: V


class WatchCache(Generic[M, V]):
    """`run` keeps the cache current; everything else may be called at any time from the same event loop."""

    def __init__(
        self,
        api: KubeApi,
        watched: Watched[M, V],
        *,
        wake: Callable[[str], None],
        jitter: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        pace: WatchPace | None = None,
    ) -> None:
        """`wake` gets the plural of the resource; `jitter` returns numbers from 0 to 1."""
        self._api = api
        self._watched = watched
        self._wake = wake
        self._jitter = jitter
        self._clock = clock
        self._pace = pace or WatchPace()
        self._reader: Reader[M] = Reader(watched.model)
        self._entries: dict[str, _Entry[V]] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._resource_version = ""
        """The version up to which all changes are known."""
        self._confirmed_at: float | None = None
        self._list_due_at = clock()
        self._failures = 0
        self._events_received = 0
        self._last_failure = ""
        self.relists = 0
        self.watch_failures = 0
        """How many watches broke, went silent or sent something unreadable."""

    @property
    def resource(self) -> Resource:
        return self._watched.resource

    @property
    def synced(self) -> bool:
        """Whether any LIST has succeeded."""
        return self._confirmed_at is not None

    @property
    def optional(self) -> bool:
        """Whether the operator can plan without these objects."""
        return bool(self._watched.otherwise)

    @property
    def ready(self) -> bool:
        """Whether plans may begin: after a LIST, and if the objects are optional, also after one that failed."""
        return self.synced or (self.optional and self.watch_failures > 0)

    @property
    def age(self) -> float:
        """Seconds since the API server last confirmed the cache; infinite before the first LIST."""
        return float("inf") if self._confirmed_at is None else self._clock() - self._confirmed_at

    @property
    def views(self) -> Mapping[str, V]:
        """A snapshot of the views, by uid. A view that is equal to the one before is the identical object."""
        return {uid: entry.view for uid, entry in self._entries.items()}

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        return tuple(self._unreadable.values())

    def store_answer(self, body: bytes) -> None:
        """Update the cache with the answer to one of our own writes, unless it has a newer version."""
        try:
            stored = self._reader.one(body)
            if self._watched.accepts(stored):
                self._put(stored)
        except ValueError:
            log.debug("the response to a write of %s is not an object; the watch delivers it", self.resource.plural)

    def store_deletion(self, uid: str, body: bytes) -> None:
        """Update the cache with the answer to our own delete: the terminating object, or a Status when it is gone."""
        try:
            stored = self._reader.one(body)
            if self._watched.accepts(stored):
                self._put(stored)
        except ValueError:
            self._entries.pop(uid, None)

    async def run(self) -> None:
        """Keep the cache current until this task is cancelled.

        A call may also raise CancelledError because something inside the client was cancelled. That would end this task
        without an error, and the cache would never change again. So it counts as a broken watch.
        """
        while True:
            events_received = self._events_received
            try:
                if self._clock() >= self._list_due_at:
                    await self._list()
                await self._watch()
            except ApiError as error:
                if error.status == GONE:
                    log.info("the watched state of %s has expired; listing again", self.resource.plural)
                    self._list_due_at = self._clock()
                else:
                    self._note_failure(error)
            except ValueError as error:
                self._note_failure(error)
            except asyncio.CancelledError as error:
                if _is_being_cancelled():
                    raise
                self._note_failure(repr(error))
            await self._back_off(answered=self._events_received > events_received)

    async def _back_off(self, *, answered: bool) -> None:
        """Wait before the next attempt, longer each time that the API server has not sent anything."""
        if answered:
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= self._pace.failures_until_relist:
            self._list_due_at = self._clock()
        longest = self._pace.shortest_backoff_seconds * 2.0 ** min(self._failures - 1, 16)
        await asyncio.sleep(min(longest, self._pace.longest_backoff_seconds) * (0.5 + 0.5 * self._jitter()))

    async def _list(self) -> None:
        watched, asked_at = self._watched, self._clock()
        pages = await self._api.list(
            watched.resource, namespace=watched.namespace, label_selector=watched.label_selector
        )
        entries: dict[str, _Entry[V]] = {}
        unreadable: list[Unreadable] = []
        version = ""
        for page in pages:
            listed = self._reader.listed([page])
            version = listed.resource_version
            unreadable += listed.unreadable
            for stored in listed.items:
                known = self._entries.get(stored.metadata.uid)
                if known is not None and known.version == stored.metadata.resource_version:
                    entries[stored.metadata.uid] = known
                    continue
                view = self._view(stored)
                if isinstance(view, Unreadable):
                    unreadable.append(view)
                else:
                    entries[stored.metadata.uid] = _Entry(stored.metadata.resource_version, view)
            await asyncio.sleep(0)  # let other tasks run: a page of 500 pods takes 30 ms
        self._replace(entries, unreadable, version)
        self._confirmed_at = asked_at
        self._list_due_at = asked_at + self._pace.relist_seconds * (1 + 0.1 * self._jitter())
        self.relists += 1
        self._last_failure = ""

    def _replace(self, entries: dict[str, _Entry[V]], unreadable: list[Unreadable], version: str) -> None:
        """Replace the cache by the listed objects; only objects that were written after the list are kept."""
        for uid, known in self._entries.items():
            listed = entries.get(uid)
            if _after(known.version, version if listed is None else listed.version):
                entries[uid] = known
        self._unreadable = {fault.uid or fault.name: fault for fault in unreadable}
        for fault in unreadable:
            log.warning("%s %s", self.resource.kind, fault)
            if fault.uid in self._entries:
                entries[fault.uid] = self._entries[fault.uid]
        before, self._entries, self._resource_version = self._entries, entries, version
        if not self._same_views(before, entries):
            self._wake(self.resource.plural)

    def _same_views(self, before: dict[str, _Entry[V]], after: dict[str, _Entry[V]]) -> bool:
        return before.keys() == after.keys() and all(
            self._watched.same_view(entry.view, after[uid].view) for uid, entry in before.items()
        )

    async def _watch(self) -> None:
        """Follow one watch until it ends or goes silent, or until a LIST is due."""
        watched = self._watched
        stream = self._api.watch(
            watched.resource,
            resource_version=self._resource_version,
            namespace=watched.namespace,
            label_selector=watched.label_selector,
        )
        async with aclosing(stream):
            while (timeout_seconds := min(self._pace.silence_seconds, self._list_due_at - self._clock())) > 0:
                try:
                    async with asyncio.timeout(timeout_seconds):
                        line = await anext(stream)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if timeout_seconds == self._pace.silence_seconds:
                        self._note_failure(f"silent for {timeout_seconds:g} s")
                    return
                self._handle_event(self._reader.event(line))

    def _handle_event(self, event: WatchEvent[M]) -> None:
        if event.type == "ERROR":
            raise ApiError(event.code, "WatchError", event.message)
        self._events_received += 1
        self._confirmed_at = self._clock()
        if event.unreadable is not None:
            self._handle_unreadable(event.type, event.unreadable)
        elif event.object is not None:
            metadata = event.object.metadata
            if event.type != "DELETED":
                changed = self._put(event.object)
            else:
                changed = self._entries.pop(metadata.uid, None) is not None
                self._unreadable.pop(metadata.uid, None)
            self._resource_version = metadata.resource_version
            if changed:
                self._wake(self.resource.plural)
            return
        self._resource_version = event.resource_version or self._resource_version

    def _handle_unreadable(self, kind: str, fault: Unreadable) -> None:
        """Keep the last readable version of the object, since it still exists."""
        key = fault.uid or fault.name
        if kind == "DELETED":
            self._unreadable.pop(key, None)
            if self._entries.pop(fault.uid, None) is not None:
                self._wake(self.resource.plural)
        else:
            log.warning("%s %s", self.resource.kind, fault)
            self._unreadable[key] = fault

    def _put(self, stored: M) -> bool:
        """Store the object if it is newer than the cached one; True when its view has changed."""
        uid, version = stored.metadata.uid, stored.metadata.resource_version
        known = self._entries.get(uid)
        if known is None and (version == self._resource_version or _after(self._resource_version, version)):
            return False  # the answer is outdated: the deletion of the object is known already
        if known is not None and (version == known.version or _after(known.version, version)):
            return False
        view = self._view(stored)
        if isinstance(view, Unreadable):
            self._unreadable[uid] = view
            return False
        self._unreadable.pop(uid, None)
        if known is not None and known.view == view:
            self._entries[uid] = _Entry(version, known.view)
            return False
        self._entries[uid] = _Entry(version, view)
        return known is None or not self._watched.same_view(known.view, view)

    def _view(self, stored: M) -> V | Unreadable:
        """The view of an object. An error in our own code makes only this object unreadable."""
        try:
            return self._watched.view(stored)
        except Exception as error:
            log.exception("%s %s cannot be converted", self.resource.kind, full_name(stored.metadata))
            return Unreadable(stored.metadata.uid, full_name(stored.metadata), repr(error))

    def _note_failure(self, why: object) -> None:
        """Log the failure. One that repeats is a warning only once if the operator can do without the objects."""
        self.watch_failures += 1
        otherwise, failure = self._watched.otherwise, str(why)
        level = logging.DEBUG if otherwise and failure == self._last_failure else logging.WARNING
        self._last_failure = failure
        log.log(level, "watching %s: %s%s", self.resource.plural, failure, f"; {otherwise}" if otherwise else "")


def _is_being_cancelled() -> bool:
    """Whether the cancellation of the current task was requested."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _after(version: str, other: str) -> bool:
    """Whether `version` is known to be later. Only numbers can be compared; all known API servers use numbers."""
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)
