"""What Prometheus answered, put back together into scrapes of pods. Pure.

Prometheus stores all that one scrape of one target gave under one time stamp. So the samples of many queries that
share pod, target and time stamp *are* that scrape's answer, and are read as the engine's own answer is: nothing of an
older or a younger scrape is mixed in, and what this scrape did not have is missing. `up` says which scrapes were good.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from forebay.telemetry.text_format import MalformedMetrics, SeriesReading

Labels = Mapping[str, str]
PodName = tuple[str, str]
"""Namespace and name."""
Job = tuple[str, str]
"""`job` and `instance`: what tells targets apart. A pod has two when a sidecar or a second job is scraped."""
Scrape = tuple[PodName, Job, float]
"""One scrape, by the pod, the target and its time stamp."""

_ONLY_TEXT = frozenset({str})


@dataclass(frozen=True, slots=True)
class PrometheusSeries:
    labels: Labels
    points: tuple[tuple[float, float], ...]
    """(unix seconds by Prometheus' clock, value), oldest first."""


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The labels that carry a pod's namespace and name; service discovery of the Prometheus operator sets these."""

    namespace: str = "namespace"
    pod: str = "pod"

    def pod_of(self, labels: Labels) -> PodName | None:
        namespace, pod = labels.get(self.namespace), labels.get(self.pod)
        return (namespace, pod) if namespace and pod else None


@dataclass(frozen=True, slots=True)
class Target:
    """What `up` says of one target of a pod."""

    job: Job
    good_at: float | None
    """The newest scrape that succeeded; None when none did within the span that was asked for."""
    newest_at: float
    scrape_interval_seconds: float | None
    """Between two scrapes; None when only one is known."""

    @property
    def is_up(self) -> bool:
        return self.good_at == self.newest_at


@dataclass(slots=True)
class Readings:
    """Readings by metric name of the scrapes asked for; of each target one."""

    wanted: frozenset[Scrape]
    labels: PodLabels
    by_scrape: dict[Scrape, dict[str, list[SeriesReading]]] = field(default_factory=dict)
    _wanted_at: dict[tuple[PodName, Job], float] = field(init=False)

    def __post_init__(self) -> None:
        self._wanted_at = {(pod, job): at for pod, job, at in self.wanted}

    def add(self, name: str, result: object) -> None:
        """Takes the `data.result` of a range vector as it came: a large fleet's holds 100,000 series, and much of it is
        not wanted. Raises MalformedMetrics."""
        for labels, values in _items(result):
            pod = self.labels.pod_of(labels)
            if pod is None:
                continue
            job = _job(labels)
            wanted_at = self._wanted_at.get((pod, job))
            for at, value in map(_point, values):
                if at == wanted_at:
                    readings = self.by_scrape.setdefault((pod, job, at), {})
                    readings.setdefault(name, []).append(SeriesReading(labels, value))


def series_of(result: object) -> list[PrometheusSeries]:
    """The series of a range vector's `data.result`. Raises MalformedMetrics."""
    return [PrometheusSeries(labels, tuple([_point(value) for value in values])) for labels, values in _items(result)]


def seconds_of(result: object) -> float:
    """The value of a scalar's `data.result`. Raises MalformedMetrics."""
    return _point(result)[1]


def targets_of(up: Iterable[PrometheusSeries], labels: PodLabels) -> dict[PodName, list[Target]]:
    """By pod, its targets in a fixed order. Two Prometheus servers that scrape the same target count as one."""
    points: dict[tuple[PodName, Job], set[tuple[float, float]]] = {}
    for series in up:
        pod = labels.pod_of(series.labels)
        if pod is not None and series.points:
            points.setdefault((pod, _job(series.labels)), set()).update(series.points)
    targets: dict[PodName, list[Target]] = {}
    for (pod, job), found in sorted(points.items()):
        targets.setdefault(pod, []).append(_target(job, sorted(found)))
    return targets


def scrape_interval_seconds(targets: Iterable[Target]) -> float | None:
    """How often Prometheus scrapes, by the median target; None while nothing is known."""
    known = [target.scrape_interval_seconds for target in targets if target.scrape_interval_seconds is not None]
    return median(known) if known else None


def _target(job: Job, points: Sequence[tuple[float, float]]) -> Target:
    """The shortest distance counts: a longer one is a gap, after an outage."""
    times = [at for at, _ in points]
    return Target(
        job=job,
        good_at=max((at for at, up in points if up == 1), default=None),
        newest_at=times[-1],
        scrape_interval_seconds=min((later - earlier for earlier, later in pairwise(times)), default=None),
    )


def _job(labels: Labels) -> Job:
    return labels.get("job", ""), labels.get("instance", "")


def _items(result: object) -> Iterator[tuple[Labels, list[object]]]:
    if not isinstance(result, list):
        raise MalformedMetrics("the answer holds no list of series")
    for item in result:
        if not isinstance(item, dict):
            raise MalformedMetrics("the answer holds something that is no series")
        labels, values = item.get("metric"), item.get("values", [])
        if not isinstance(labels, dict) or not _ONLY_TEXT.issuperset(map(type, labels.values())):
            raise MalformedMetrics("a series of the answer has no labels")
        if not isinstance(values, list):
            raise MalformedMetrics("a series of the answer has no values")
        yield labels, values


def _point(pair: object) -> tuple[float, float]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise MalformedMetrics("a value of the answer is no pair of time and number")
    at, text = pair
    if isinstance(at, bool) or not isinstance(at, int | float) or not isinstance(text, str):
        raise MalformedMetrics(f"{str(pair)[:80]} is no pair of time and number")
    try:
        return float(at), float(text)
    except (ValueError, OverflowError):
        raise MalformedMetrics(f"{text[:80]!r} is no number") from None
