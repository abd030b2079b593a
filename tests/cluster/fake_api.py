"""An API server in memory, for unit tests and for faults that a real one does not show on demand.

It behaves as callers rely on: resourceVersions grow, writes check preconditions, watches replay from a version, and a
name stays taken while its object terminates. It has no schemas and no controllers.
"""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay.cluster.client.kube_api import GONE, NO_ANSWER, PODS, ApiError, Resource

Key = tuple[str, str, str]
"""Plural, namespace, name."""


@dataclass(frozen=True)
class FakeCall:
    verb: str
    plural: str
    name: str
    """`namespace/name`, or the part that the call names."""
    body: Any = None
    subresource: str = ""


@dataclass
class _Stream:
    """One open watch."""

    resource: Resource
    selector: str
    queue: asyncio.Queue[bytes | ApiError | None] = field(default_factory=asyncio.Queue)
    silent: bool = False


@dataclass
class FakeApi:
    """A KubeApi with objects as dicts; `put` and `remove` are the writes of other clients."""

    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    calls: list[FakeCall] = field(default_factory=list)
    page_size: int = 500
    version: int = 100
    compacted: int = 0
    """Watches from before this version have expired."""
    before: Callable[[FakeCall], None] = lambda call: None
    """Called before each call; may raise, or change the cluster."""
    after: Callable[[FakeCall], None] = lambda call: None
    """Called after each write is carried out; when it raises, the answer is lost."""
    list_seconds: float = 0.0
    """How long a LIST takes after its state was read."""
    graceful: bool = True
    """Whether a deleted pod stays, terminating, until `remove`."""
    _history: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _streams: list[_Stream] = field(default_factory=list)

    # Writes of other clients.

    def put(self, resource: Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create or replace an object, as another client would."""
        stored = copy.deepcopy(dict(body))
        metadata = stored.setdefault("metadata", {})
        key = _key(resource, metadata.get("namespace"), metadata["name"])
        known = self.objects.get(key)
        stored.setdefault("apiVersion", resource.api_version)
        stored.setdefault("kind", resource.kind)
        metadata.setdefault("uid", known["metadata"]["uid"] if known else f"uid-{self.version + 1}")
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        return self._store(resource, key, stored, "MODIFIED" if known else "ADDED")

    def remove(self, resource: Resource, namespace: str | None, name: str) -> None:
        """Remove an object, as garbage collection or the kubelet would."""
        gone = self.objects.pop(_key(resource, namespace, name))
        self._store(resource, None, gone, "DELETED")

    def find(self, resource: Resource, namespace: str | None, name: str) -> dict[str, Any] | None:
        return self.objects.get(_key(resource, namespace, name))

    def all(self, resource: Resource) -> list[dict[str, Any]]:
        return [stored for key, stored in sorted(self.objects.items()) if key[0] == resource.plural]

    # Faults.

    def expire(self, *, in_stream: bool = False) -> None:
        """Compact everything up to now; with `in_stream`, open watches get an ERROR event."""
        self.version += 1
        self.compacted = self.version
        if in_stream:
            self.say({"type": "ERROR", "object": {"kind": "Status", "code": GONE, "reason": "Expired"}})

    def say(self, event: bytes | Mapping[str, Any]) -> None:
        """Send a line to every open watch."""
        for stream in self._streams:
            stream.queue.put_nowait(event if isinstance(event, bytes) else json.dumps(event).encode())

    def bookmark(self) -> None:
        for stream in self._streams:
            metadata = {"resourceVersion": str(self.version), "creationTimestamp": None}
            event = {"type": "BOOKMARK", "object": {"kind": stream.resource.kind, "metadata": metadata}}
            if not stream.silent:
                stream.queue.put_nowait(json.dumps(event).encode())

    def silence(self) -> None:
        """Open watches get no more events, and do not end."""
        for stream in self._streams:
            stream.silent = True

    def end_watches(self, error: ApiError | None = None) -> None:
        for stream in self._streams:
            stream.queue.put_nowait(error)

    # KubeApi.

    async def list(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = ""
    ) -> tuple[bytes, ...]:
        self._called(FakeCall("list", resource.plural, namespace or ""))
        listed = [
            copy.deepcopy(stored)
            for stored in self.all(resource)
            if _selected(stored, label_selector) and namespace in (None, stored["metadata"].get("namespace"))
        ]
        version = str(self.version)
        await asyncio.sleep(self.list_seconds)
        starts = range(0, max(len(listed), 1), self.page_size)
        pages = (
            {
                "kind": f"{resource.kind}List",
                "metadata": {"resourceVersion": version},
                "items": listed[start:][: self.page_size],
            }
            for start in starts
        )
        return tuple(json.dumps(page).encode() for page in pages)

    async def probe(self, resource: Resource, *, namespace: str | None = None) -> None:
        self._called(FakeCall("list", resource.plural, namespace or ""))
        await asyncio.sleep(self.list_seconds)

    async def watch(
        self, resource: Resource, *, resource_version: str, namespace: str | None = None, label_selector: str = ""
    ) -> AsyncGenerator[bytes, None]:
        self._called(FakeCall("watch", resource.plural, resource_version))
        if int(resource_version) < self.compacted:
            raise ApiError(GONE, "Expired", f"too old resource version: {resource_version}")
        stream = _Stream(resource, label_selector)
        for version, plural, kind, stored in self._history:
            if version > int(resource_version) and plural == resource.plural:
                self._tell(stream, kind, stored)
        self._streams.append(stream)
        try:
            while (item := await stream.queue.get()) is not None:
                if isinstance(item, ApiError):
                    raise item
                yield item
        finally:
            self._streams.remove(stream)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes:
        call = FakeCall("get", resource.plural, _name(namespace, name))
        self._called(call)
        return self._answer(call, self._stored(resource, namespace, name))

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> bytes:
        name = body["metadata"]["name"]
        call = FakeCall("create", resource.plural, _name(namespace, name), copy.deepcopy(dict(body)))
        self._called(call)
        if self.find(resource, namespace, name):
            raise ApiError(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
        return self._answer(call, self.put(resource, _placed(body, namespace)))

    async def apply(self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        call = FakeCall("apply", resource.plural, _name(namespace, name), copy.deepcopy(dict(body)))
        self._called(call)
        known = self.find(resource, namespace, name)
        if known is not None:
            self._check(known, body)
        return self._answer(call, self.put(resource, _merged(known or {}, _placed(body, namespace))))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> bytes:
        call = FakeCall("patch", resource.plural, _name(namespace, name), copy.deepcopy(dict(body)), subresource)
        self._called(call)
        known = self._stored(resource, namespace, name)
        changed = body
        if subresource == "status":
            # A write to the status ignores all metadata except the resourceVersion.
            version = (body.get("metadata") or {}).get("resourceVersion")
            changed = {"metadata": {"resourceVersion": version} if version else {}, "status": body.get("status")}
        self._check(known, changed)
        return self._answer(call, self.put(resource, _merged(known, changed)))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> bytes:
        options = {"uid": uid, "resourceVersion": resource_version, "gracePeriodSeconds": grace_seconds}
        call = FakeCall("delete", resource.plural, _name(namespace, name), options)
        self._called(call)
        known = self._stored(resource, namespace, name)
        for field_name in ("uid", "resourceVersion"):
            if call.body[field_name] not in (None, known["metadata"][field_name]):
                raise ApiError(409, "Conflict", f"{field_name} is {known['metadata'][field_name]}")
        if resource.plural == PODS.plural and self.graceful:
            ending = _merged(known, {"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}})
            return self._answer(call, self.put(resource, ending))
        self.remove(resource, namespace, name)
        return self._answer(call, {"kind": "Status", "status": "Success", "details": {"uid": uid}})

    def _called(self, call: FakeCall) -> None:
        self.calls.append(call)
        self.before(call)

    def _answer(self, call: FakeCall, stored: Mapping[str, Any]) -> bytes:
        self.after(call)
        return json.dumps(stored).encode()

    def _stored(self, resource: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        known = self.find(resource, namespace, name)
        if known is None:
            raise ApiError(404, "NotFound", f'{resource.plural} "{name}" not found')
        return known

    def _check(self, known: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        """The preconditions of the API server: another resourceVersion is a conflict, another uid an invalid change."""
        version, uid = (body.get("metadata") or {}).get("resourceVersion"), (body.get("metadata") or {}).get("uid")
        if version not in (None, known["metadata"]["resourceVersion"]):
            raise ApiError(409, "Conflict", f"the version is {known['metadata']['resourceVersion']}, not {version}")
        if uid not in (None, known["metadata"]["uid"]):
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")

    def _store(self, resource: Resource, key: Key | None, stored: dict[str, Any], kind: str) -> dict[str, Any]:
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        if key is not None:
            self.objects[key] = stored
        snapshot = copy.deepcopy(stored)
        self._history.append((self.version, resource.plural, kind, snapshot))
        for stream in self._streams:
            if stream.resource.plural == resource.plural:
                self._tell(stream, kind, snapshot)
        return stored

    def _tell(self, stream: _Stream, kind: str, stored: Mapping[str, Any]) -> None:
        if not stream.silent:
            kind = kind if _selected(stored, stream.selector) else "DELETED"
            stream.queue.put_nowait(json.dumps({"type": kind, "object": stored}).encode())


def lost_answer() -> ApiError:
    """The error of a client whose connection breaks after the request was sent."""
    return ApiError(NO_ANSWER, "ServerDisconnectedError", "Server disconnected")


def _key(resource: Resource, namespace: str | None, name: str) -> Key:
    return (resource.plural, namespace or "", name)


def _name(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _placed(body: Mapping[str, Any], namespace: str | None) -> dict[str, Any]:
    return _merged(dict(body), {"metadata": {"namespace": namespace}}) if namespace else dict(body)


def _selected(stored: Mapping[str, Any], selector: str) -> bool:
    labels = stored["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        name, equals, value = term.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def _merged(known: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch, RFC 7386."""
    result = copy.deepcopy(dict(known))
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            result[name] = copy.deepcopy(value)
    return result
