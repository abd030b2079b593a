"""WatchCache: the objects of one resource as they are now, kept by LIST and WATCH.

A watch can fail in ways that look like peace: it goes silent, it misses what happened while it was down, it ends with
an error inside its own stream. So silence has a limit (bookmarks come every minute), an expired state means a new LIST,
and a full LIST every ten minutes lets nothing that was missed live on. What we write ourselves is folded in from the
answer of the write, so the next plan does not depend on how fast the watch is.
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
    """Time limits in seconds."""

    silence_seconds: float = 90.0
    """Bookmarks come about every 60 s; a watch that says nothing for longer is dead, whatever its socket believes."""
    relist_seconds: float = 600.0
    shortest_backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 30.0
    failures_until_relist: int = 3
    """Attempts to watch without a word from the server, after which a LIST at least keeps the view current."""


@dataclass(frozen=True, slots=True)
class Watched(Generic[M, V]):
    """What a cache keeps: which objects, and the view of each that readers get."""

    resource: Resource
    model: type[M]
    view: Callable[[M], V]
    label_selector: str = ""
    namespace: str | None = None
    alike: Callable[[V, V], bool] = lambda one, other: one == other
    """Whether a change from one view to the other is no news; nobody is woken then."""
    takes: Callable[[M], bool] = lambda found: True
    """Whether the answer of an own write belongs here, where several caches share a resource."""


@dataclass(frozen=True, slots=True)
class _Entry(Generic[V]):
    version: str
    view: V


class WatchCache(Generic[M, V]):
    """`run` keeps it current; everything else may be called at any time from the same event loop."""

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
        """`wake` is told the resource's plural; `jitter` gives numbers from 0 to 1."""
        self._api = api
        self._watched = watched
        self._wake = wake
        self._jitter = jitter
        self._clock = clock
        self._pace = pace or WatchPace()
        self._reader: Reader[M] = Reader(watched.model)
        self._entries: dict[str, _Entry[V]] = {}
        self._unreadable: dict[str, Unreadable] = {}
        self._horizon = ""
        """Version up to which every change has been seen."""
        self._heard_at: float | None = None
        self._list_due_at = clock()
        self._failures = 0
        self._words = 0
        self.relists = 0
        self.disturbances = 0
        """Watches that broke, went silent or said something unreadable; for metrics."""

    @property
    def resource(self) -> Resource:
        return self._watched.resource

    @property
    def synced(self) -> bool:
        """Whether a LIST has ever succeeded."""
        return self._heard_at is not None

    @property
    def age(self) -> float:
        """Seconds since the server last confirmed this view; infinite before the first LIST."""
        return float("inf") if self._heard_at is None else self._clock() - self._heard_at

    @property
    def views(self) -> Mapping[str, V]:
        """By uid; a snapshot."""
        return {uid: entry.view for uid, entry in self._entries.items()}

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        return tuple(self._unreadable.values())

    def fold(self, body: bytes) -> None:
        """Take in the answer of an own write, unless something newer is known."""
        try:
            found = self._reader.one(body)
            if self._watched.takes(found):
                self._put(found)
        except ValueError:
            log.debug("the answer of a write to %s is no object; the watch will bring it", self.resource.plural)

    def fold_deleted(self, uid: str, body: bytes) -> None:
        """Take in the answer of an own delete: the object as it ends, or a Status once it is gone."""
        try:
            found = self._reader.one(body)
            if self._watched.takes(found):
                self._put(found)
        except ValueError:
            self._entries.pop(uid, None)

    async def run(self) -> None:
        """Keep the view current until this task is cancelled.

        A cancellation may also come out of a call, when something inside the client was cancelled. It would end the
        task without an error, and the view would never change again; so it counts as a broken watch.
        """
        while True:
            words = self._words
            try:
                if self._clock() >= self._list_due_at:
                    await self._list()
                await self._watch()
            except ApiError as error:
                if error.status == GONE:
                    log.info("the watched state of %s has expired; listing again", self.resource.plural)
                    self._list_due_at = self._clock()
                else:
                    self._disturbed(error)
            except ValueError as error:
                self._disturbed(error)
            except asyncio.CancelledError as error:
                if _is_being_cancelled():
                    raise
                self._disturbed(repr(error))
            await self._breathe(worked=self._words > words)

    async def _breathe(self, *, worked: bool) -> None:
        """Wait before the next attempt: longer each time, while the server has said nothing."""
        if worked:
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
            for found in listed.items:
                view = self._view(found)
                if isinstance(view, Unreadable):
                    unreadable.append(view)
                else:
                    entries[found.metadata.uid] = _Entry(found.metadata.resource_version, view)
            await asyncio.sleep(0)  # others want the loop too: a page of 500 pods takes 30 ms
        self._replace(entries, unreadable, version)
        self._heard_at = asked_at
        self._list_due_at = asked_at + self._pace.relist_seconds * (1 + 0.1 * self._jitter())
        self.relists += 1

    def _replace(self, entries: dict[str, _Entry[V]], unreadable: list[Unreadable], version: str) -> None:
        """Put the listed objects in place of all; only what was written since the list was taken stays."""
        for uid, known in self._entries.items():
            listed = entries.get(uid)
            if _after(known.version, version if listed is None else listed.version):
                entries[uid] = known
        self._unreadable = {fault.uid or fault.name: fault for fault in unreadable}
        for fault in unreadable:
            log.warning("%s %s", self.resource.kind, fault)
            if fault.uid in self._entries:
                entries[fault.uid] = self._entries[fault.uid]
        before, self._entries, self._horizon = self._entries, entries, version
        if not self._alike(before, entries):
            self._wake(self.resource.plural)

    def _alike(self, before: dict[str, _Entry[V]], after: dict[str, _Entry[V]]) -> bool:
        return before.keys() == after.keys() and all(
            self._watched.alike(entry.view, after[uid].view) for uid, entry in before.items()
        )

    async def _watch(self) -> None:
        """Follow one watch until it ends, falls silent, or a LIST is due."""
        watched = self._watched
        stream = self._api.watch(
            watched.resource,
            resource_version=self._horizon,
            namespace=watched.namespace,
            label_selector=watched.label_selector,
        )
        async with aclosing(stream):
            while (patience := min(self._pace.silence_seconds, self._list_due_at - self._clock())) > 0:
                try:
                    async with asyncio.timeout(patience):
                        line = await anext(stream)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    if patience == self._pace.silence_seconds:
                        self._disturbed(f"silent for {patience:g} s")
                    return
                self._take(self._reader.event(line))

    def _take(self, event: WatchEvent[M]) -> None:
        if event.type == "ERROR":
            raise ApiError(event.code, "WatchError", event.message)
        self._words += 1
        self._heard_at = self._clock()
        if event.unreadable is not None:
            self._take_unreadable(event.type, event.unreadable)
        elif event.object is not None:
            metadata = event.object.metadata
            if event.type != "DELETED":
                news = self._put(event.object)
            else:
                news = self._entries.pop(metadata.uid, None) is not None
                self._unreadable.pop(metadata.uid, None)
            self._horizon = metadata.resource_version
            if news:
                self._wake(self.resource.plural)
            return
        self._horizon = event.resource_version or self._horizon

    def _take_unreadable(self, kind: str, fault: Unreadable) -> None:
        """The last version that could be read stays: an object we cannot read has not ceased to exist."""
        key = fault.uid or fault.name
        if kind == "DELETED":
            self._unreadable.pop(key, None)
            if self._entries.pop(fault.uid, None) is not None:
                self._wake(self.resource.plural)
        else:
            log.warning("%s %s", self.resource.kind, fault)
            self._unreadable[key] = fault

    def _put(self, found: M) -> bool:
        """Remember the object if it is newer than what is known; True when that is news."""
        uid, version = found.metadata.uid, found.metadata.resource_version
        known = self._entries.get(uid)
        if known is None and (version == self._horizon or _after(self._horizon, version)):
            return False  # an answer that was overtaken: the object's end has been seen already
        if known is not None and (version == known.version or _after(known.version, version)):
            return False
        view = self._view(found)
        if isinstance(view, Unreadable):
            self._unreadable[uid] = view
            return False
        self._entries[uid] = _Entry(version, view)
        self._unreadable.pop(uid, None)
        return known is None or not self._watched.alike(known.view, view)

    def _view(self, found: M) -> V | Unreadable:
        """What readers get of an object. Should our own code fail on one, that costs this object only."""
        try:
            return self._watched.view(found)
        except Exception as error:
            log.exception("%s of %s cannot be understood", self.resource.kind, found.metadata.name)
            return Unreadable(found.metadata.uid, full_name(found.metadata), repr(error))

    def _disturbed(self, why: object) -> None:
        self.disturbances += 1
        log.warning("watching %s: %s", self.resource.plural, why)


def _is_being_cancelled() -> bool:
    """Whether somebody asked for the end of the task that runs."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _after(version: str, other: str) -> bool:
    """Whether `version` is known to be later. Versions are opaque unless both are numbers, as all servers make them."""
    return version.isdecimal() and other.isdecimal() and int(version) > int(other)
