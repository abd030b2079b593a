"""Turns the range vectors of Prometheus back into scrapes of pods. Pure.

Prometheus stores all samples of one scrape of one target under one time stamp. So the samples of many queries with the
same pod, target and time stamp are the answer of one scrape, and are read like an engine's own answer: samples of other
scrapes are not mixed in, and a series that this scrape lacks is missing. `up` says which scrapes succeeded.
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
"""The labels `job` and `instance` of a target. A pod has two targets when a sidecar or a second job is scraped."""
Scrape = tuple[PodName, Job, float]
"""One scrape: the pod, the target and the time stamp."""

_ONLY_TEXT = frozenset({str})


@dataclass(frozen=True, slots=True)
class PrometheusSeries:
    """One series of a range vector."""

    labels: Labels
    points: tuple[tuple[float, float], ...]
    """Pairs of unix seconds (by Prometheus' clock) and value, oldest first."""


@dataclass(frozen=True, slots=True)
class PodLabels:
    """The labels with a pod's namespace and name; the defaults are those of the Prometheus operator."""

    namespace: str = "namespace"
    pod: str = "pod"

    def pod_of(self, labels: Labels) -> PodName | None:
        namespace, pod = labels.get(self.namespace), labels.get(self.pod)
        return (namespace, pod) if namespace and pod else None


@dataclass(frozen=True, slots=True)
class Target:
    """One target of a pod, as described by `up`."""

    job: Job
    last_success_at: float | None
    """The newest successful scrape; None when none succeeded within the queried range."""
    last_scrape_at: float
    scrape_interval_seconds: float | None
    """The time between two scrapes; None when only one is known."""

    @property
    def is_up(self) -> bool:
        return self.last_success_at == self.last_scrape_at


@dataclass(slots=True)
class Readings:
    """The readings of the wanted scrapes, at most one per target, by metric name."""

    wanted: frozenset[Scrape]
    labels: PodLabels
    by_scrape: dict[Scrape, dict[str, list[SeriesReading]]] = field(default_factory=dict)
    _wanted_at: dict[tuple[PodName, Job], float] = field(init=False)

    def __post_init__(self) -> None:
        self._wanted_at = {(pod, job): at for pod, job, at in self.wanted}

    def add(self, name: str, result: object) -> None:
        """Add the wanted samples of a range vector's `data.result`. Raises MalformedMetrics.

        The result is read in one pass: that of a large fleet has 100,000 series, and most samples are not wanted.
        """
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
    """The targets of each pod, in a fixed order. Two Prometheus servers that scrape the same target count as one."""
    points: dict[tuple[PodName, Job], set[tuple[float, float]]] = {}
    for series in up:
        pod = labels.pod_of(series.labels)
        if pod is not None and series.points:
            points.setdefault((pod, _job(series.labels)), set()).update(series.points)
    targets: dict[PodName, list[Target]] = {}
    for (pod, job), target_points in sorted(points.items()):
        targets.setdefault(pod, []).append(_target(job, sorted(target_points)))
    return targets


def scrape_interval_seconds(targets: Iterable[Target]) -> float | None:
    """The scrape interval of the median target; None while no interval is known."""
    known = [target.scrape_interval_seconds for target in targets if target.scrape_interval_seconds is not None]
    return median(known) if known else None


def _target(job: Job, points: Sequence[tuple[float, float]]) -> Target:
    """A target from its `up` points. The shortest distance is the interval; longer ones are gaps after an outage."""
    times = [at for at, _ in points]
    return Target(
        job=job,
        last_success_at=max((at for at, up in points if up == 1), default=None),
        last_scrape_at=times[-1],
        scrape_interval_seconds=min((later - earlier for earlier, later in pairwise(times)), default=None),
    )


def _job(labels: Labels) -> Job:
    return labels.get("job", ""), labels.get("instance", "")


def _items(result: object) -> Iterator[tuple[Labels, list[object]]]:
    if not isinstance(result, list):
        raise MalformedMetrics("the response is not a list of series")
    for item in result:
        if not isinstance(item, dict):
            raise MalformedMetrics("the response contains an item that is not a series")
        labels, values = item.get("metric"), item.get("values", [])
        if not isinstance(labels, dict) or not _ONLY_TEXT.issuperset(map(type, labels.values())):
            raise MalformedMetrics("a series of the response has no labels")
        if not isinstance(values, list):
            raise MalformedMetrics("a series of the response has no values")
        yield labels, values


def _point(pair: object) -> tuple[float, float]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise MalformedMetrics("a value of the response is not a pair of time and number")
    at, text = pair
    if isinstance(at, bool) or not isinstance(at, int | float) or not isinstance(text, str):
        raise MalformedMetrics(f"{str(pair)[:80]} is not a pair of time and number")
    try:
        return float(at), float(text)
    except (ValueError, OverflowError):
        raise MalformedMetrics(f"{text[:80]!r} is not a number") from None
