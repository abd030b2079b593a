"""HTTP requests as vLLM's instrumentation counts them: by handler, method and class of status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forebay.simulation.engine.histogram import BucketHistogram
from forebay.simulation.vllm_server.exposition import Page, counts, number

FINE_SECONDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
    *(7.5, 10.0, 30.0, 60.0),
)
COARSE_SECONDS: Final = (0.1, 0.5, 1.0)
UNKNOWN_HANDLER: Final = "none"
NOT_COUNTED: Final = frozenset({"/metrics", "/health", "/load", "/ping", "/version"})


@dataclass(slots=True)
class _Handler:
    """What one path and method has seen."""

    created: float
    statuses: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    seconds: BucketHistogram = field(default_factory=lambda: BucketHistogram(COARSE_SECONDS))


class HttpCounts:
    """Finished requests; series appear with their first one."""

    def __init__(self, created: float) -> None:
        self._created = created
        self._handlers: dict[tuple[str, str], _Handler] = {}
        self._all = BucketHistogram(FINE_SECONDS)

    def finished(
        self, path: str, method: str, status: int, *, seconds: float, received: int, sent: int, now: float
    ) -> None:
        """Count one request; `received` and `sent` are content lengths in bytes, 0 where there was none."""
        if path in NOT_COUNTED:
            return
        handler = self._handlers.setdefault((path, method), _Handler(created=now))
        group = f"{status // 100}xx"
        handler.statuses[group] = handler.statuses.get(group, 0) + 1
        handler.requests += 1
        handler.request_bytes += received
        handler.response_bytes += sent
        handler.seconds.observe(seconds)
        self._all.observe(seconds)

    def text(self, *, single_process: bool) -> str:
        """All families; several processes export no `_created`, and no family without series."""
        page = Page()
        values: list[str] = []
        every = list(self._handlers.items())
        if single_process or every:
            page.family("http_requests_total", "counter", "Requests by method, status and handler.")
        for (path, method), handler in every:
            for status, seen in handler.statuses.items():
                page.sample("http_requests_total", {"handler": path, "method": method, "status": status}, number(seen))
        if single_process and every:
            page.family("http_requests_created", "gauge", "When the series began.")
            for (path, method), handler in every:
                for status in handler.statuses:
                    series = {"handler": path, "method": method, "status": status}
                    page.sample("http_requests_created", series, number(handler.created))
        for name in ("request", "response"):
            self._write_sizes(page, name, single_process=single_process)
        fine, coarse = "http_request_duration_highr_seconds", "http_request_duration_seconds"
        page.family(fine, "histogram", "Latency of all requests, many buckets.")
        page.histogram(fine, {}, FINE_SECONDS)
        values.extend(counts(self._all))
        if single_process:
            page.created(fine, [{}], self._created)
        if single_process or every:
            page.family(coarse, "histogram", "Latency by handler, few buckets.")
        for (path, method), handler in every:
            page.histogram(coarse, {"handler": path, "method": method}, COARSE_SECONDS)
            values.extend(counts(handler.seconds))
        if single_process and every:
            page.family(f"{coarse}_created", "gauge", "When the series began.")
            for (path, method), handler in every:
                page.sample(f"{coarse}_created", {"handler": path, "method": method}, number(handler.created))
        return page.template() % tuple(values)

    def _write_sizes(self, page: Page, name: str, *, single_process: bool) -> None:
        """Content lengths by path alone, all methods together."""
        sums: dict[str, list[float]] = {}
        for (path, _), handler in self._handlers.items():
            entry = sums.setdefault(path, [0, 0, handler.created])
            entry[0] += handler.requests
            entry[1] += handler.request_bytes if name == "request" else handler.response_bytes
        family = f"http_{name}_size_bytes"
        if single_process or sums:
            page.family(family, "summary", "Content length by handler.")
        for path, (requests, total, _) in sums.items():
            page.sample(f"{family}_count", {"handler": path}, number(requests))
            page.sample(f"{family}_sum", {"handler": path}, number(total))
        if single_process and sums:
            page.family(f"{family}_created", "gauge", "When the series began.")
            for path, (_, _, created) in sums.items():
                page.sample(f"{family}_created", {"handler": path}, number(created))
