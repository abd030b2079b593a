"""One GET of one pod's metrics, bounded in bytes, and every way it can fail put into words and a countable reason."""

from enum import StrEnum

import aiohttp


class FetchFailure(StrEnum):
    """Why a scrape gave nothing; the label values of the failure counter, so the set is closed."""

    ADDRESS = "address"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    STATUS = "status"
    TOO_LARGE = "too_large"
    CUT = "cut"
    MALFORMED = "malformed"
    NOT_AN_ENGINE = "not_an_engine"
    SIGNAL_MISSING = "signal_missing"
    INTERNAL = "internal"


class ScrapeFailed(Exception):  # noqa: N818 - reads as a sentence where it is raised and caught
    def __init__(self, failure: FetchFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


def metrics_session(connections: int) -> aiohttp.ClientSession:
    """A session for scraping alone: no cookies, no proxy from the environment, no connection kept.

    vLLM's server closes an idle connection after 5 s, which is about our interval: a kept connection would often be
    closed under the next request.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "forebay"},
    )


async def fetch(session: aiohttp.ClientSession, url: str, max_bytes: int) -> bytes:
    """The body of a 200 answer. Raises ScrapeFailed; the caller bounds the time."""
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ScrapeFailed(
                    FetchFailure.STATUS, f"answered HTTP {response.status} {response.reason or ''}".rstrip()
                )
            return await _bounded(response, max_bytes)
    except aiohttp.InvalidURL as error:
        raise ScrapeFailed(FetchFailure.ADDRESS, f"{url} is no address") from error
    except aiohttp.ClientPayloadError as error:
        raise ScrapeFailed(FetchFailure.CUT, "the answer ended before its announced length") from error
    except aiohttp.ClientResponseError as error:
        raise ScrapeFailed(FetchFailure.MALFORMED, f"the answer is not HTTP: {error.message}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ScrapeFailed(FetchFailure.CONNECTION, f"no connection: {error}") from error


async def _bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise ScrapeFailed(FetchFailure.TOO_LARGE, f"the answer is longer than {max_bytes} bytes")
    return bytes(body)
