"""Turns the readings of one pod into one `EngineSample`, summed over the pod's data-parallel engines.

A missing gauge may mean zero, or that the gauge was renamed. With more than one API server process, vLLM exports a
gauge only after it was set once, so an engine that has never worked has no gauges: these read as 0. An engine that has
worked exports all of them. If one is absent there, it was renamed, and reading it as 0 would scale down a busy service.
So the sample is refused unless the three gauges that decide (running, waiting, KV) can be read; the last good sample
stays and ages. Everything else may be None, and `missing` names it.
"""

import math
import re
from collections.abc import Iterable
from itertools import pairwise

from forebay.scaling.load.pod_history import FULLEST
from forebay.scaling.load.signals import EngineSample, HistogramSample
from forebay.telemetry.metric_catalogue import (
    ALL_WAITING,
    CACHE_CONFIG,
    ENGINE_PREFIX,
    HISTOGRAMS,
    Catalogue,
    Series,
    wire_names,
)
from forebay.telemetry.text_format import Readings, SeriesReading, TextReader

_READER = TextReader(wire_names())
_PREFIX = ENGINE_PREFIX.encode()
_WORK_COUNTERS = ("engine_steps", "generation_tokens")


class NotAnEngine(ValueError):  # noqa: N818 - reads as a sentence where it is raised and caught
    """The answer is not from vLLM but from a proxy, an error page or another server on the port."""


class SignalMissing(ValueError):  # noqa: N818
    """A gauge that decides is not in the answer, or its value is not usable."""


def sample_of(body: bytes, catalogue: Catalogue, taken_at: float) -> EngineSample:
    """The sample in one answer of `/metrics`.

    Raises MalformedMetrics, NotAnEngine or SignalMissing; their messages are shown to users.
    """
    if not body.startswith(_PREFIX) and b"\n" + _PREFIX not in body:
        raise NotAnEngine(f"the response of {len(body)} bytes has no series that starts with {ENGINE_PREFIX}")
    return sample_from(_READER.read(body), catalogue, taken_at)


def sample_from(readings: Readings, catalogue: Catalogue, taken_at: float) -> EngineSample:
    """The sample in the readings of one scrape, by this operator or by Prometheus. Raises SignalMissing."""
    return _PodReadings(readings, catalogue).sample(taken_at)


class _PodReadings:
    """Looks up the readings of one answer by the fields of `EngineSample`, and records which series are missing."""

    def __init__(self, readings: Readings, catalogue: Catalogue) -> None:
        self._readings = readings
        self._catalogue = catalogue
        self._missing: dict[str, None] = {}

    def sample(self, taken_at: float) -> EngineSample:
        waiting = _sum(self._gauge("waiting_requests"))
        return EngineSample(
            taken_at=taken_at,
            running_requests=_sum(self._gauge("running_requests")),
            waiting_requests=waiting,
            deferred_requests=max(0.0, _sum(self._gauge(ALL_WAITING)) - waiting),
            kv_fraction=self._kv_fraction(),
            engine_steps=self._counter("engine_steps"),
            prompt_tokens=self._counter("prompt_tokens"),
            generation_tokens=self._counter("generation_tokens"),
            finished_requests=self._counter("finished_requests"),
            finished_prompt_tokens=self._counter("finished_prompt_tokens"),
            finished_output_tokens=self._counter("finished_output_tokens"),
            rejected_requests=self._counter("rejected_requests"),
            preemptions=self._counter("preemptions"),
            time_to_first_token=self._histogram("time_to_first_token"),
            inter_token_latency=self._histogram("inter_token_latency"),
            queue_time=self._histogram("queue_time"),
            kv_cache_tokens=self._kv_cache_tokens(),
            missing=tuple(self._missing),
        )

    def _series(self, signal: str) -> tuple[str, list[SeriesReading]] | None:
        """The name and readings of a signal, by the most preferred name that the answer has; None without any.

        When that is not the name this engine version should have, the expected name counts as missing.
        """
        for candidate in self._catalogue.preferences[signal]:
            name = f"{candidate.name}_bucket" if signal in HISTOGRAMS else candidate.name
            readings = self._readings.get(name, [])
            matching = [reading for reading in readings if _has_label_of(candidate, reading)]
            if matching:
                if self._catalogue.expected.get(signal, candidate.name) != candidate.name:
                    self._note_missing(self._catalogue.expected[signal])
                return candidate.name, matching
        return None

    def _gauge(self, signal: str) -> list[float]:
        """One value per engine; empty when the engine has never worked and so has no gauge yet."""
        series = self._series(signal)
        if series is None:
            self._refuse_unless_idle(signal)
            return []
        name, readings = series
        values = [reading.value for reading in readings]
        for value in values:
            if not math.isfinite(value) or value < 0:
                raise SignalMissing(f"{name} is {value}, which is not a valid value")
        return values

    def _refuse_unless_idle(self, signal: str) -> None:
        for counter in _WORK_COUNTERS:
            series = self._series(counter)
            if series is None:
                continue
            total = _sum(reading.value for reading in series[1])
            if total != 0:
                raise SignalMissing(
                    f"{self._catalogue.expected[signal]} is missing, although {series[0]} is {total:g}; "
                    f"vLLM {self._catalogue.version or 'of unknown version'} may have renamed it"
                )

    def _kv_fraction(self) -> float:
        fullest = max(self._gauge("kv_fraction"), default=0.0)
        if fullest > FULLEST:
            name = self._catalogue.expected["kv_fraction"]
            raise SignalMissing(f"{name} is {fullest:g} and not a fraction from 0 to 1")
        return min(fullest, 1.0)

    def _counter(self, signal: str) -> float | None:
        series = self._series(signal)
        if series is None:
            if signal in self._catalogue.expected:
                self._note_missing(self._catalogue.expected[signal])
            return None
        name, readings = series
        total = _sum(reading.value for reading in readings)
        if not math.isfinite(total) or total < 0:
            self._note_missing(name)
            return None
        return total

    def _histogram(self, signal: str) -> HistogramSample | None:
        series = self._series(signal)
        if series is None:
            self._note_missing(self._catalogue.expected[signal])
            return None
        name, buckets = series
        histogram = _sum_engines(buckets, self._readings.get(f"{name}_sum", []))
        if histogram is None:
            self._note_missing(name)
        return histogram

    def _kv_cache_tokens(self) -> int | None:
        """KV tokens of the pod.

        `kv_cache_size_tokens` is per engine, so it is summed. `num_gpu_blocks` is already the sum over the engines of
        the process, repeated in each engine's series, so it is taken once: the largest.
        """
        configs = [reading.labels for reading in self._readings.get(CACHE_CONFIG, [])]
        sizes = [_positive_integer(config.get("kv_cache_size_tokens")) for config in configs]
        known_sizes = [size for size in sizes if size is not None]
        if known_sizes and len(known_sizes) == len(configs):
            return sum(known_sizes)
        if not configs or self._catalogue.has_kv_cache_tokens:
            self._note_missing(CACHE_CONFIG)
        products = [
            blocks * block_size
            for config in configs
            if (blocks := _positive_integer(config.get("num_gpu_blocks"))) is not None
            and (block_size := _positive_integer(config.get("block_size"))) is not None
        ]
        return max(products, default=None)

    def _note_missing(self, name: str) -> None:
        self._missing[name] = None


def _sum(values: Iterable[float]) -> float:
    """The sum; infinite when it is beyond the largest float, so that it is refused as any other value without sense."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _has_label_of(series: Series, reading: SeriesReading) -> bool:
    return series.label is None or reading.labels.get(series.label[0]) == series.label[1]


def _sum_engines(buckets: list[SeriesReading], sums: list[SeriesReading]) -> HistogramSample | None:
    """The sum of the engines' histograms; None when buckets are missing, do not increase, or differ between engines."""
    by_engine: dict[str, dict[float, float]] = {}
    for labels, count in buckets:
        bound = _bound(labels.get("le"))
        if bound is None:
            return None
        by_engine.setdefault(labels.get("engine", ""), {})[bound] = count
    engines = list(by_engine.values())
    bounds = tuple(sorted(engines[0]))
    if bounds[-1] != math.inf or any(engine.keys() != engines[0].keys() for engine in engines):
        return None
    counts = tuple(_sum(engine[bound] for engine in engines) for bound in bounds)
    total = _sum(reading.value for reading in sums)
    if len(sums) != len(engines) or not _is_cumulative(counts) or not math.isfinite(total):
        return None
    return HistogramSample(bounds=bounds, counts=counts, sum=total)


def _is_cumulative(counts: tuple[float, ...]) -> bool:
    return math.isfinite(counts[-1]) and all(before <= after for before, after in pairwise((0.0, *counts)))


def _bound(text: str | None) -> float | None:
    try:
        bound = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _positive_integer(text: str | None) -> int | None:
    """The positive integer in a label; None for any other text. vLLM writes unset fields as "None"."""
    return int(text) if text is not None and re.fullmatch(r"0*[1-9][0-9]{0,17}", text, re.ASCII) else None
