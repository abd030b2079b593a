"""The write gate: every write goes through it, so that only the leader writes and concurrent calls are limited."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from forebay.cluster.client.kube_api import KubeApi, Resource


class LeadershipLostError(Exception):
    """This process is no longer the leader; the next leader decides about the remaining writes."""


class Gate:
    """A KubeApi for writers. Writes raise LeadershipLostError or ApiError."""

    def __init__(self, api: KubeApi, *, is_leader: Callable[[], bool], at_once: int) -> None:
        self._api = api
        self._is_leader = is_leader
        self._slots = asyncio.Semaphore(at_once)
        self.calls: Counter[tuple[str, str]] = Counter()
        """The number of calls by verb (as in RBAC) and plural."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes:
        async with self._slots:
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
        async with self._slots:
            # Checked after the wait for a slot, because the lease may be lost in the meantime.
            if not self._is_leader():
                raise LeadershipLostError
            self.calls[verb, resource.plural] += 1
            return await call()
