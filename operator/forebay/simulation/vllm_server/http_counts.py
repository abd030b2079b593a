"""Counts of HTTP requests by handler, method and status class, as vLLM's HTTP instrumentation exports them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forebay.simulation.engine.histogram import BucketHistogram
from forebay.simulation.vllm_server.exposition import PageTemplate, histogram_values, sample_value

FINE_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
    *(7.5, 10.0, 30.0, 60.0),
)
COARSE_BOUNDS: Final = (0.1, 0.5, 1.0)
UNKNOWN_HANDLER: Final = "none"
NOT_COUNTED: Final = frozenset({"/metrics", "/health", "/load", "/ping", "/version"})


@dataclass(slots=True)
class _HandlerCounts:
    """Counters of one path and method."""

    created: float
    statuses: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    seconds: BucketHistogram = field(default_factory=lambda: BucketHistogram(COARSE_BOUNDS))


class HttpCounts:
    """Counters of finished requests. A series appears with its first request."""

    def __init__(self, created: float) -> None:
        self._created = created
        self._handlers: dict[tuple[str, str], _HandlerCounts] = {}
        self._all = BucketHistogram(FINE_BOUNDS)

    def finished(
        self, path: str, method: str, status: int, *, seconds: float, received: int, sent: int, now: float
    ) -> None:
        """Count one request; `received` and `sent` are content lengths in bytes, 0 if there was none."""
        if path in NOT_COUNTED:
            return
        handler = self._handlers.setdefault((path, method), _HandlerCounts(created=now))
        group = f"{status // 100}xx"
        handler.statuses[group] = handler.statuses.get(group, 0) + 1
        handler.requests += 1
        handler.request_bytes += received
        handler.response_bytes += sent
        handler.seconds.observe(seconds)
        self._all.observe(seconds)

    def text(self, *, single_process: bool) -> str:
        """The text of all families. Several processes export no `_created`, and no family without series."""
        page = PageTemplate()
        values: list[str] = []
        handlers = list(self._handlers.items())
        if single_process or handlers:
            page.family("http_requests_total", "counter", "Requests by method, status and handler.")
        for (path, method), handler in handlers:
            for status, count in handler.statuses.items():
                series = {"handler": path, "method": method, "status": status}
                page.sample("http_requests_total", series, sample_value(count))
        if single_process and handlers:
            page.family("http_requests_created", "gauge", "When the series began.")
            for (path, method), handler in handlers:
                for status in handler.statuses:
                    series = {"handler": path, "method": method, "status": status}
                    page.sample("http_requests_created", series, sample_value(handler.created))
        for name in ("request", "response"):
            self._write_sizes(page, name, single_process=single_process)
        fine, coarse = "http_request_duration_highr_seconds", "http_request_duration_seconds"
        page.family(fine, "histogram", "Latency of all requests, many buckets.")
        page.histogram(fine, {}, FINE_BOUNDS)
        values.extend(histogram_values(self._all))
        if single_process:
            page.created(fine, [{}], self._created)
        if single_process or handlers:
            page.family(coarse, "histogram", "Latency by handler, few buckets.")
        for (path, method), handler in handlers:
            page.histogram(coarse, {"handler": path, "method": method}, COARSE_BOUNDS)
            values.extend(histogram_values(handler.seconds))
        if single_process and handlers:
            page.family(f"{coarse}_created", "gauge", "When the series began.")
            for (path, method), handler in handlers:
                page.sample(f"{coarse}_created", {"handler": path, "method": method}, sample_value(handler.created))
        return page.template() % tuple(values)

    def _write_sizes(self, page: PageTemplate, name: str, *, single_process: bool) -> None:
        """Add the content lengths by path, summed over all methods."""
        sums: dict[str, list[float]] = {}
        for (path, _), handler in self._handlers.items():
            entry = sums.setdefault(path, [0, 0, handler.created])
            entry[0] += handler.requests
            entry[1] += handler.request_bytes if name == "request" else handler.response_bytes
        family = f"http_{name}_size_bytes"
        if single_process or sums:
            page.family(family, "summary", "Content length by handler.")
        for path, (requests, total, _) in sums.items():
            page.sample(f"{family}_count", {"handler": path}, sample_value(requests))
            page.sample(f"{family}_sum", {"handler": path}, sample_value(total))
        if single_process and sums:
            page.family(f"{family}_created", "gauge", "When the series began.")
            for path, (_, _, created) in sums.items():
                page.sample(f"{family}_created", {"handler": path}, sample_value(created))
