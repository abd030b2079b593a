"""Fetches the metrics of one pod: one GET with a size limit, in which every failure becomes a ScrapeFailed."""

import aiohttp

from forebay.telemetry.scrape_failure import ScrapeFailed, ScrapeFailure


def metrics_session(connections: int) -> aiohttp.ClientSession:
    """An HTTP session for scraping: without cookies, a proxy from the environment, or connections that are kept open.

    vLLM's server closes an idle connection after 5 s, which is about the scrape interval. A connection that is kept
    open would often be closed during the next request.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        headers={"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity", "User-Agent": "forebay"},
    )


async def fetch(session: aiohttp.ClientSession, url: str, max_bytes: int) -> bytes:
    """The body of a response with status 200. Raises ScrapeFailed. The caller sets the timeout."""
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise ScrapeFailed(
                    ScrapeFailure.STATUS, f"answered HTTP {response.status} {response.reason or ''}".rstrip()
                )
            return await _read_body(response, max_bytes)
    except aiohttp.InvalidURL as error:
        raise ScrapeFailed(ScrapeFailure.ADDRESS, f"{url} is not a valid address") from error
    except aiohttp.ClientPayloadError as error:
        raise ScrapeFailed(ScrapeFailure.CUT, "the response ended before its announced length") from error
    except aiohttp.ClientResponseError as error:
        raise ScrapeFailed(ScrapeFailure.MALFORMED, f"the response is not HTTP: {error.message}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ScrapeFailed(ScrapeFailure.CONNECTION, f"no connection: {error}") from error


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            raise ScrapeFailed(ScrapeFailure.TOO_LARGE, f"the response is longer than {max_bytes} bytes")
    return bytes(body)
