"""The gate every write goes through: only the leader writes, and only so many calls are under way at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from forebay.cluster.client.kube_api import KubeApi, Resource


class DeposedError(Exception):
    """This process leads no more; whatever it still wanted to write is the next leader's to decide."""


class Gate:
    """KubeApi for those who write. Writes raise DeposedError besides ApiError."""

    def __init__(self, api: KubeApi, *, is_leader: Callable[[], bool], at_once: int) -> None:
        self._api = api
        self._is_leader = is_leader
        self._places = asyncio.Semaphore(at_once)
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls made, by verb (as RBAC names it) and plural."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes:
        async with self._places:
            self.calls["get", resource.plural] += 1
            return await self._api.get(resource, namespace, name)

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> bytes:
        return await self._write("create", resource, lambda: self._api.create(resource, namespace, body))

    async def apply(self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        return await self._write("patch", resource, lambda: self._api.apply(resource, namespace, name, body))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> bytes:
        return await self._write(
            "patch", resource, lambda: self._api.patch(resource, namespace, name, body, subresource=subresource)
        )

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
        return await self._write(
            "delete",
            resource,
            lambda: self._api.delete(
                resource, namespace, name, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
            ),
        )

    async def _write(self, verb: str, resource: Resource, call: Callable[[], Awaitable[bytes]]) -> bytes:
        async with self._places:
            # Asked after the wait for a place: leadership may have gone meanwhile.
            if not self._is_leader():
                raise DeposedError
            self.calls[verb, resource.plural] += 1
            return await call()
