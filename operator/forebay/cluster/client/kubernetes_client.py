"""KubernetesClient: the KubeApi of a real API server, over the official asynchronous client.

The typed models of that client cost 20 times as much as our projections, so only its connection pool, TLS and
credentials are used. All failures raise ApiError. A request is retried only when the server did not accept it (429 or
503 with Retry-After), or, once, when the credentials had expired (401).

Bodies are encoded as Go encodes JSON. The API server stores the `data` of a ControllerRevision as it was encoded, and
compares it byte by byte with Go's own encoding whenever another field is patched; after any other encoding every later
patch fails as a change of an immutable field.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException

from forebay import __version__
from forebay.cluster.client.access import Access, AccessError
from forebay.cluster.client.kube_api import GONE, NO_ANSWER, ApiError, Resource
from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.projections import continue_token

FIELD_MANAGER = "forebay"
PAGE = 500
"""Objects per page of a list, as in client-go's pager."""
REQUEST_SECONDS = 30.0
"""The limit of one request, including waits for Retry-After."""
WATCH_SECONDS = 300
"""How long the server keeps a watch open; the next watch may reach another server."""
REQUEST_TIMEOUTS = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
WATCH_TIMEOUTS = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=150.0)
"""The reader of a watch has a shorter limit on silence; this one only frees the connection."""
LONGEST_EVENT = 16 * 1024 * 1024
"""The longest watch event in bytes. etcd refuses objects over 1.5 MiB, so a longer line is something else."""
REFRESH_SECONDS = 5.0
"""The shortest time between two attempts to read expired credentials again."""

UNAUTHORIZED = 401
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Call:
    """One request, for the metrics; `status` is 0 when there was no answer."""

    verb: str
    """The verb in RBAC."""
    resource: str
    status: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One HTTP request and its verb in RBAC."""

    verb: str
    resource: Resource
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = JSON
    limits: aiohttp.ClientTimeout = REQUEST_TIMEOUTS

    @property
    def url(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class _RawClient(RESTClientObject):
    """The official client's connections, with bodies that are encoded already: its own `request` encodes otherwise."""

    async def send(self, request: RawRequest, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        settings = self.configuration
        extra: dict[str, Any] = {}
        if settings.tls_server_name:
            extra["server_hostname"] = settings.tls_server_name
        if settings.proxy:
            extra["proxy"] = settings.proxy
        if settings.proxy_headers:
            extra["proxy_headers"] = settings.proxy_headers
        return await self.pool_manager.request(
            request.method,
            f"{settings.host}{request.url}",
            data=None if request.body is None else encode(request.body),
            headers=headers,
            timeout=request.limits,
            **extra,
        )


class KubernetesClient:
    """The KubeApi of a real API server. Use it with `async with`, or call `close()`."""

    def __init__(
        self,
        access: Access,
        configuration: Configuration,
        *,
        user_agent: str,
        on_call: Callable[[Call], None] = lambda call: None,
        server_clock: ServerClock | None = None,
    ) -> None:
        """`server_clock` learns the server's time from every successful answer."""
        self._access = access
        self._user_agent = user_agent
        self._on_call = on_call
        self._server_clock = server_clock
        self._clock = time.monotonic if server_clock is None else server_clock.monotonic
        self._client = _RawClient(configuration)
        self._refreshing = asyncio.Lock()
        self._credentials_read_at = self._clock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; open watches end with an ApiError."""
        await self._client.close()

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return str(self._client.configuration.host)

    async def list(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = ""
    ) -> tuple[bytes, ...]:
        query = {"labelSelector": label_selector} if label_selector else {}
        request = RawRequest("list", resource, "GET", _path(resource, namespace), query)
        try:
            return await self._pages(request)
        except ApiError as error:
            if error.status != GONE:
                raise
            # The state of the list was compacted between two pages, so the list is read again in one answer.
            return (await self._read(request),)

    async def probe(self, resource: Resource, *, namespace: str | None = None) -> None:
        await self._read(RawRequest("list", resource, "GET", _path(resource, namespace), {"limit": "1"}))

    async def _pages(self, request: RawRequest) -> tuple[bytes, ...]:
        pages: list[bytes] = []
        query = {**request.query, "limit": str(PAGE)}
        while True:
            page = await self._read(replace(request, query=query))
            pages.append(page)
            token = continue_token(page)
            if not token:
                return tuple(pages)
            query["continue"] = token

    async def watch(
        self, resource: Resource, *, resource_version: str, namespace: str | None = None, label_selector: str = ""
    ) -> AsyncGenerator[bytes, None]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        if label_selector:
            query["labelSelector"] = label_selector
        request = RawRequest("watch", resource, "GET", _path(resource, namespace), query, limits=WATCH_TIMEOUTS)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._open(request)
            with closing(response) as stream:
                async with aclosing(lines(stream.content.iter_any())) as events:
                    async for event in events:
                        yield event
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error

    async def get(self, resource: Resource, namespace: str | None, name: str) -> bytes:
        return await self._read(RawRequest("get", resource, "GET", _path(resource, namespace, name)))

    async def create(self, resource: Resource, namespace: str | None, body: Mapping[str, Any]) -> bytes:
        query = {"fieldManager": FIELD_MANAGER}
        return await self._read(RawRequest("create", resource, "POST", _path(resource, namespace), query, body))

    async def apply(self, resource: Resource, namespace: str | None, name: str, body: Mapping[str, Any]) -> bytes:
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = _path(resource, namespace, name)
        return await self._read(RawRequest("patch", resource, "PATCH", path, query, body, APPLY_PATCH))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
    ) -> bytes:
        query = {"fieldManager": FIELD_MANAGER}
        path = _path(resource, namespace, name, subresource)
        return await self._read(RawRequest("patch", resource, "PATCH", path, query, body, MERGE_PATCH))

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
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        return await self._read(RawRequest("delete", resource, "DELETE", _path(resource, namespace, name), {}, body))

    async def _read(self, request: RawRequest) -> bytes:
        """The body of the answer. Raises ApiError."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._open(request)
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _no_answer(error) from error

    async def _open(self, request: RawRequest) -> aiohttp.ClientResponse:
        """A successful response whose body is not read yet. Raises ApiError."""
        started_at = self._clock()
        credentials_read_again = False
        while True:
            sent_at = self._clock()
            status = NO_ANSWER
            try:
                response = await self._send(request)
                status = response.status
            except ConfigException as error:
                raise ApiError(NO_ANSWER, "NoCredentials", str(error)) from error
            finally:
                self._on_call(Call(request.verb, request.resource.plural, status, self._clock() - sent_at))
            if status < 400:
                if self._server_clock is not None:
                    self._server_clock.answered(response.headers.get("Date"), sent_at, self._clock())
                return response
            failure = api_error(status, response.reason or "", await response.read())
            wait = _retry_after(response)
            if status == UNAUTHORIZED and not credentials_read_again:
                credentials_read_again = True
                await self._read_credentials(sent_at, failure)
            elif wait is None or self._clock() + wait > started_at + REQUEST_SECONDS:
                raise failure
            else:
                await asyncio.sleep(wait)

    async def _send(self, request: RawRequest) -> aiohttp.ClientResponse:
        client = self._client
        headers = {"Accept": JSON, "Content-Type": request.content_type, "User-Agent": self._user_agent}
        token = (await client.configuration.auth_settings()).get("BearerToken")
        if token and token["value"]:
            headers["Authorization"] = token["value"]
        return await client.send(request, headers)

    async def _read_credentials(self, sent_at: float, failure: ApiError) -> None:
        """Read the credentials again, unless another request has since `sent_at`.

        Raises `failure` when they were just read, and an ApiError when they cannot be read.
        """
        async with self._refreshing:
            if self._credentials_read_at > sent_at:
                return
            if self._clock() - self._credentials_read_at < REFRESH_SECONDS:
                raise failure
            self._credentials_read_at = self._clock()
            try:
                fresh = await self._access.configuration()
            except AccessError as error:
                raise ApiError(failure.status, failure.reason, f"{failure.message}; {error}") from error
            old = self._client
            if (fresh.cert_file, fresh.host) == (old.configuration.cert_file, old.configuration.host):
                old.configuration.api_key = fresh.api_key
                old.configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
            else:
                self._client = _RawClient(fresh)
                await old.close()


async def connect(
    access: Access,
    *,
    purpose: str = "operator",
    on_call: Callable[[Call], None] = lambda call: None,
    server_clock: ServerClock | None = None,
) -> KubernetesClient:
    """A client for the cluster of `access`. Raises AccessError. Does not contact the API server yet."""
    user_agent = f"forebay-{purpose}/{__version__}"
    configuration = await access.configuration()
    return KubernetesClient(access, configuration, user_agent=user_agent, on_call=on_call, server_clock=server_clock)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream. A line that is cut off by the end of the stream is dropped."""
    remainder = b""
    async for chunk in chunks:
        *complete, remainder = (remainder + chunk).split(b"\n")
        if len(remainder) > LONGEST_EVENT:
            raise ApiError(NO_ANSWER, "TooLong", f"a watch event of more than {LONGEST_EVENT} bytes")
        for line in complete:
            if line.strip():
                yield line


def encode(body: Mapping[str, Any]) -> bytes:
    """JSON as Go's encoder writes it: without spaces, and with the characters that are special in HTML escaped."""
    text = json.dumps(body, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode()


def api_error(status: int, reason: str, body: bytes) -> ApiError:
    """The ApiError of a failed request, with reason and message of the Status object in its body, if there is one."""
    try:
        content = json.loads(body)
        return ApiError(status, str(content.get("reason") or reason), str(content.get("message") or reason))
    except (ValueError, AttributeError):
        # The body is a proxy's page or empty; its beginning shows who answered.
        return ApiError(status, reason, body[:200].decode(errors="replace").strip() or reason)


def _no_answer(error: BaseException) -> ApiError:
    if isinstance(error, TimeoutError):
        return ApiError(NO_ANSWER, "Timeout", f"no answer in time: {error}" if str(error) else "no answer in time")
    return ApiError(NO_ANSWER, type(error).__name__, str(error) or type(error).__name__)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds to wait before the request is sent again; None when the answer is final."""
    if response.status not in (429, 503):
        return None
    try:
        return max(0.0, float(response.headers.get("Retry-After", "")))
    except ValueError:
        return None


def _path(resource: Resource, namespace: str | None, name: str = "", subresource: str = "") -> str:
    parts = [resource.path]
    if namespace is not None and resource.namespaced:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/" + "/".join(parts)
