"""One connection to one Prometheus: bounded in time and bytes, verified, and every failure put into words.

Imported only where Prometheus is used: `prometheus-api-client` and `requests` take 0.3 s and 20 MB. The library keeps
the address, the session and the form of the API; what it leaves open is closed here. It is synchronous, so it is used
from a thread. Nothing is tried again within a round: the next round comes soon, and a retry doubles every time-out.
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

from forebay.telemetry.direct.fetch import FetchFailure, ScrapeFailed
from forebay.telemetry.prometheus.prometheus_options import PrometheusOptions

CHUNK_BYTES = 1 << 16
LONGEST_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class RequestLimits:
    timeout_seconds: int = 10
    """For one query, from connecting to the last byte."""
    max_bytes: int = 1 << 27
    """The largest histogram of 2,000 pods, all read at once, has 16 MB."""


class PrometheusConnection:
    """Asks one query at a time. Raises ScrapeFailed, and nothing else that a server can cause."""

    def __init__(self, options: PrometheusOptions, bounds: RequestLimits | None = None) -> None:
        self._url = options.url.rstrip("/")
        self._bounds = bounds or RequestLimits()
        self._connect = PrometheusConnect(
            url=self._url,
            session=_BoundedSession(options, self._bounds),
            retry=Retry(0, read=False),
            timeout=self._bounds.timeout_seconds,
        )

    def ask(self, query: str, at: float | None = None) -> object:
        """`data.result` of the query, as of the time `at` (None: of now, by Prometheus' own clock)."""
        parameters = {"timeout": f"{self._bounds.timeout_seconds}s"}
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


def _classify(error: Exception) -> tuple[FetchFailure, str]:
    """Raises what is not a server's or a network's doing."""
    match error:
        case PrometheusApiClientException():
            return FetchFailure.STATUS, f"refused the query: {error}"
        case requests.exceptions.SSLError():
            return FetchFailure.CONNECTION, f"its certificate is not trusted: {error}"
        case requests.Timeout() | ReadTimeoutError():
            return FetchFailure.TIMEOUT, "no answer in time"
        case requests.exceptions.InvalidJSONError() | KeyError() | TypeError() | ValueError() | RecursionError():
            return FetchFailure.MALFORMED, "the answer is not that of Prometheus' API"
        case requests.RequestException() | HTTPError() | OSError():
            return FetchFailure.CONNECTION, f"no connection: {error}"
        case _:
            raise error


class _TokenFileAuth(AuthBase):
    """Reads the file at every request: tokens that are mounted are renewed under way."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        try:
            token = self._file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ScrapeFailed(FetchFailure.CONNECTION, f"the token in {self._file} cannot be read: {error}") from error
        if not token or not token.isprintable() or " " in token:
            raise ScrapeFailed(FetchFailure.CONNECTION, f"{self._file} holds no token")
        request.headers["Authorization"] = f"Bearer {token}"
        return request


class _HttpResponse(requests.Response):
    """Read by pydantic's parser: the answers of a large fleet have megabytes, and hold the interpreter while read."""

    def json(self, **_: Any) -> Any:
        return pydantic_core.from_json(self.content, allow_inf_nan=False)


class _BoundedSession(requests.Session):
    """No proxy, certificate or password from the environment, no redirect, and an end to every answer.

    `requests` bounds the silence between two bytes, not the answer: a server that drips would hold the thread for good.
    """

    def __init__(self, options: PrometheusOptions, bounds: RequestLimits) -> None:
        super().__init__()
        self.trust_env = False
        self.verify = True if options.ca_file is None else str(options.ca_file)
        self.auth = _TokenFileAuth(options.token_file) if options.token_file else None
        self.headers["User-Agent"] = "forebay"
        self._bounds = bounds

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        until = time.monotonic() + self._bounds.timeout_seconds
        answer = super().send(request, **(kwargs | {"stream": True, "allow_redirects": False}))
        try:
            body = self._body(answer, until)
        finally:
            answer.close()
        whole = _HttpResponse()
        whole.status_code, whole.reason, whole.url, whole.headers = (
            answer.status_code,
            answer.reason,
            answer.url,
            answer.headers,
        )
        whole.raw = io.BytesIO(body)
        return whole

    def _body(self, answer: requests.Response, until: float) -> bytes:
        body = bytearray()
        while chunk := answer.raw.read1(CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._bounds.max_bytes:
                raise ScrapeFailed(FetchFailure.TOO_LARGE, f"the answer is longer than {self._bounds.max_bytes} bytes")
            if time.monotonic() > until:
                raise ScrapeFailed(FetchFailure.TIMEOUT, f"no whole answer within {self._bounds.timeout_seconds} s")
        return bytes(body)
