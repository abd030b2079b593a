"""A Prometheus in memory: it stores scrapes with their times and answers the two kinds of query that are used.

Answers have the form of `data.result` of the real API (recorded from 2.42): a scalar for `time()`, a matrix for a range
vector, numbers as text.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from forebay.telemetry.metric_catalogue import wire_names
from forebay.telemetry.scrape_failure import ScrapeFailed
from forebay.telemetry.text_format import TextReader

_RANGE = re.compile(r"(?P<name>[\w:]+)\{(?P<matchers>.*)\}\[(?P<seconds>\d+)s\]", re.DOTALL)
_READER = TextReader(wire_names())

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class RecordedPrometheus:
    now: float = 1000.0
    """By Prometheus' own clock."""
    failure: ScrapeFailed | None = None
    """Raised by every query."""
    before_answer: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)
    connected: int = 0
    closed: int = 0
    _points: dict[SeriesKey, list[tuple[float, float]]] = field(default_factory=dict)

    def connect(self) -> "RecordedPrometheus":
        self.connected += 1
        return self

    def close(self) -> None:
        self.closed += 1

    def scraped(self, pod: str, text: str, *, at: float, job: str = "engines", **more: str) -> None:
        """Record a successful scrape of the pod with this answer."""
        labels = _target(pod, job, more)
        self._store("up", labels, at, 1.0)
        for name, readings in _READER.read(text.encode()).items():
            for reading in readings:
                self._store(name, {**reading.labels, **labels}, at, reading.value)

    def failed(self, pod: str, *, at: float, job: str = "engines") -> None:
        """Record a failed scrape of the pod."""
        self._store("up", _target(pod, job, {}), at, 0.0)

    def ask(self, query: str, at: float | None = None) -> object:
        self.asked.append(query)
        self.before_answer()
        if self.failure is not None:
            raise self.failure
        if query == "time()":
            return [self.now, f"{self.now:g}"]
        match = _RANGE.fullmatch(query)
        assert match is not None, query
        assert at == self.now, "every query of a round is as of the time of its first"
        return self._matrix(match["name"], at - int(match["seconds"]), at)

    def _matrix(self, wanted: str, since: float, until: float) -> list[object]:
        series: list[object] = []
        for (name, labels), points in self._points.items():
            # As Prometheus 3 has it: the left end is open.
            values = [[at, _text(value)] for at, value in points if since < at <= until]
            if name == wanted and values:
                series.append({"metric": {"__name__": name, **dict(labels)}, "values": values})
        return series

    def _store(self, name: str, labels: Mapping[str, str], at: float, value: float) -> None:
        self._points.setdefault((name, tuple(sorted(labels.items()))), []).append((at, value))


def _target(pod: str, job: str, more: Mapping[str, str]) -> dict[str, str]:
    return {"namespace": "default", "pod": pod, "job": job, "instance": f"{pod}:8000", **more}


def _text(value: float) -> str:
    """As Go writes numbers."""
    return {"nan": "NaN", "inf": "+Inf"}.get(repr(value), repr(value))
