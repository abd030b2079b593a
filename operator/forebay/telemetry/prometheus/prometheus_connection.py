"""The connection to Prometheus: limits on time and size, TLS verification, and every failure as a ScrapeFailed.

This module is imported only where Prometheus is used, because `prometheus-api-client` and `requests` cost 0.3 s and
20 MB. The library knows the URL, the session and the HTTP API; this module adds the limits that it lacks. The library
is synchronous, so the connection is used from a thread. Nothing is retried within a round: the next round comes soon,
and a retry would double every timeout.
"""

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic_core
import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as ReadTimeoutError
from urllib3.util.retry import Retry

from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions
from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure

CHUNK_BYTES = 1 << 16
LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits of one query."""

    timeout_seconds: int = 10
    """From connecting to the last byte."""
    max_bytes: int = 1 << 27
    """The largest histogram of 2,000 pods, read in one query, has 16 MB."""


class PrometheusConnection:
    """Sends one query at a time. Everything that a server or the network can cause raises ScrapeFailed."""

    def __init__(self, options: PrometheusOptions, limits: RequestLimits | None = None) -> None:
        self._url = options.url.rstrip("/")
        self._limits = limits or RequestLimits()
        self._connect = PrometheusConnect(
            url=self._url,
            session=_BoundedSession(options, self._limits),
            retry=Retry(0, read=False),
            timeout=self._limits.timeout_seconds,
        )

    def ask(self, query: str, at: float | None = None) -> object:
        """The `data.result` of the query at the time `at`; None means now, by Prometheus' own clock."""
        parameters = {"timeout": f"{self._limits.timeout_seconds}s"}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        try:
            result: object = self._connect.custom_query(query, params=parameters)
        except ScrapeFailed as error:
            raise ScrapeFailed(error.failure, f"{self._url}: {error}") from error
        except Exception as error:
            failure, message = _classify(error)
            raise ScrapeFailed(failure, f"{self._url}: {message}"[:LONGEST_MESSAGE]) from error
        return result

    def close(self) -> None:
        self._connect.close()


def _classify(error: Exception) -> tuple[ScrapeFailure, str]:
    """The reason and the message of a server or network error. Raises any other error again."""
    match error:
        case PrometheusApiClientException():
            return ScrapeFailure.STATUS, f"refused the query: {error}"
        case requests.exceptions.SSLError():
            return ScrapeFailure.CONNECTION, f"its certificate is not trusted: {error}"
        case requests.Timeout() | ReadTimeoutError():
            return ScrapeFailure.TIMEOUT, "no answer in time"
        case requests.exceptions.InvalidJSONError() | KeyError() | TypeError() | ValueError() | RecursionError():
            return ScrapeFailure.MALFORMED, "the response is not from the Prometheus API"
        case requests.RequestException() | HTTPError() | OSError():
            return ScrapeFailure.CONNECTION, f"no connection: {error}"
        case _:
            raise error


class _TokenFileAuth(AuthBase):
    """Sends the token in a file. It reads the file for every request, because mounted tokens are renewed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        try:
            token = self._file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ScrapeFailed(
                ScrapeFailure.CONNECTION, f"the token file {self._file} cannot be read: {error}"
            ) from error
        if not token or not token.isprintable() or " " in token:
            raise ScrapeFailed(ScrapeFailure.CONNECTION, f"{self._file} does not contain a token")
        request.headers["Authorization"] = f"Bearer {token}"
        return request


class _HttpResponse(requests.Response):
    """A response parsed by pydantic: for a large fleet it has megabytes, and parsing it blocks the interpreter."""

    def json(self, **_: Any) -> Any:
        return pydantic_core.from_json(self.content, allow_inf_nan=False)


class _BoundedSession(requests.Session):
    """Uses no proxy, certificate or password from the environment, follows no redirect, and ends every response.

    `requests` limits only the time between two bytes. A server that sends a byte now and then would block the thread
    for ever.
    """

    def __init__(self, options: PrometheusOptions, limits: RequestLimits) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = True if options.ca_file is None else str(options.ca_file)
        self.auth = _TokenFileAuth(options.token_file) if options.token_file else None
        self.headers["User-Agent"] = "forebay"
        self._limits = limits

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        deadline = time.monotonic() + self._limits.timeout_seconds
        raw_response = super().send(request, **(kwargs | {"stream": True, "allow_redirects": False}))
        try:
            body = self._body(raw_response, deadline)
        finally:
            raw_response.close()
        response = _HttpResponse()
        response.status_code, response.reason, response.url, response.headers = (
            raw_response.status_code,
            raw_response.reason,
            raw_response.url,
            raw_response.headers,
        )
        response.raw = io.BytesIO(body)
        return response

    def _body(self, raw_response: requests.Response, deadline: float) -> bytes:
        body = bytearray()
        while chunk := raw_response.raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._limits.max_bytes:
                raise ScrapeFailed(
                    ScrapeFailure.TOO_LARGE, f"the response is longer than {self._limits.max_bytes} bytes"
                )
            if time.monotonic() > deadline:
                raise ScrapeFailed(
                    ScrapeFailure.TIMEOUT, f"no complete response within {self._limits.timeout_seconds} s"
                )
        return bytes(body)
