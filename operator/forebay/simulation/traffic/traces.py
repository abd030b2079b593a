"""Traffic for simulations: requests as columns, from recordings or from a stated shape, made faster or slower.

Recordings are read by `trace_file`, ServeGen's client models by `servegen`. So that a report can state where its
traffic comes from, a trace keeps the SHA-256 of its source and, in `method`, a sentence for every change made to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from forebay.capacity.plan.traffic_shape import day_rates
from forebay.simulation.traffic.trace_file import Recording, read_trace

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
SHAPE_SPREAD: Final = 0.5
"""Coefficient of variation of the lengths in a shape."""
Rate = Callable[[Floats], Floats]
"""A function from seconds since the beginning to requests per second."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Offered requests, in order of arrival."""

    name: str
    times: Floats
    """Arrival times, in seconds since the beginning."""
    prompt_tokens: Integers
    output_tokens: Integers
    tenants: Integers
    """Tenant of each request, as an index into `tenant_names`."""
    tenant_names: tuple[str, ...] = ("",)
    cached_tokens: Integers | None = None
    """Prompt tokens of each request that a prefix cache has; None if prefixes are not known."""
    batch_work: Flags | None = None
    """Which requests are of the class batch; None if all are interactive."""
    sha256: str = ""
    """SHA-256 of the file that the trace was read from; empty for a synthetic trace."""
    method: tuple[str, ...] = ()
    """The changes that were made to the trace, in order."""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> float:
        """Time from the beginning to the last arrival."""
        return float(self.times[-1]) if len(self.times) else 0.0

    @property
    def batch(self) -> Flags:
        """Which requests are batch work."""
        return np.zeros(len(self.times), dtype=np.bool_) if self.batch_work is None else self.batch_work

    @property
    def lengths(self) -> list[tuple[float, float]]:
        """(prompt, answer) tokens of each request."""
        return list(zip(self.prompt_tokens.tolist(), self.output_tokens.tolist(), strict=True))

    def where(self, kept: Flags, step: str) -> Trace:
        """A trace of only the requests that `kept` selects; `step` is added to the method."""
        return replace(
            self,
            times=self.times[kept],
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            tenants=self.tenants[kept],
            cached_tokens=None if self.cached_tokens is None else self.cached_tokens[kept],
            batch_work=None if self.batch_work is None else self.batch_work[kept],
            method=(*self.method, step),
        )


def read_file(path: Path) -> Trace:
    """The trace of a recording in any format that `trace_file` reads. Raises TraceError and OSError."""
    content = path.read_bytes()
    return trace_of_recording(read_trace(content.decode()), path.name, sha256(content).hexdigest())


def trace_of_recording(recording: Recording, name: str, digest: str = "") -> Trace:
    """The trace of a recording, from its first request on. Requests without an answer or a length are left out."""
    requests = sorted((r for r in recording.requests if r.answered), key=lambda r: r.time)
    left_out = len(recording.requests) - len(requests)
    names = tuple(sorted({r.tenant for r in requests}))
    index = {tenant: number for number, tenant in enumerate(names)}
    times = np.array([r.time for r in requests])
    return Trace(
        name=name,
        times=times - times[0],
        prompt_tokens=np.array([round(r.prompt_tokens) for r in requests], dtype=np.int64).clip(1),
        output_tokens=np.array([round(r.output_tokens) for r in requests], dtype=np.int64).clip(1),
        tenants=np.array([index[r.tenant] for r in requests], dtype=np.int64),
        tenant_names=names,
        batch_work=np.array([r.batch for r in requests], dtype=np.bool_) if any(r.batch for r in requests) else None,
        sha256=digest,
        method=(f"{left_out} requests without an answer were left out",) if left_out else (),
    )


def with_prefix_cache(trace: Trace, recording: Recording, block_tokens: int = 512) -> Trace:
    """The trace with cached tokens as of an unbounded cache that all replicas share: the most that reuse can save."""
    cached_blocks: set[int] = set()
    cached = []
    for request in sorted((r for r in recording.requests if r.answered), key=lambda r: r.time):
        hits = 0
        for block in request.prefix_blocks:
            if block not in cached_blocks:
                break
            hits += 1
        cached_blocks.update(request.prefix_blocks)
        cached.append(min(hits * block_tokens, round(request.prompt_tokens) - 1))
    step = f"prefix cache: unbounded, shared by all replicas, blocks of {block_tokens} tokens"
    return replace(trace, cached_tokens=np.array(cached, dtype=np.int64), method=(*trace.method, step))


def rate_factor(trace: Trace, factor: float, seed: int) -> Trace:
    """A trace with `factor` times the requests, at the same times of day.

    Below 1, requests are dropped at random, which keeps bursts and lengths. Above 1, every request is copied. Copies
    arrive up to one mean inter-arrival time later and have the lengths of a request nearby, so that bursts grow without
    identical requests at the same time.
    """
    if factor <= 0:
        raise ValueError(f"rate factor: {factor} is not above 0; 1 leaves the trace as it is")
    draw = np.random.default_rng([seed, 1])
    if factor <= 1:
        return trace.where(draw.random(len(trace)) < factor, f"rate × {factor:g}: each request kept at random")
    whole = int(factor)
    copies = whole + (draw.random(len(trace)) < factor - whole)
    source = np.repeat(np.arange(len(trace)), copies)
    first = np.concatenate([[True], source[1:] != source[:-1]]) if len(source) else np.zeros(0, dtype=bool)
    apart = trace.seconds / max(1, len(trace))
    times = trace.times[source] + np.where(first, 0.0, draw.random(len(source)) * apart)
    near = np.where(first, source, (source + draw.integers(-20, 21, len(source))).clip(0, len(trace) - 1))
    order = np.argsort(times, kind="stable")
    near = near[order]
    return replace(
        trace,
        times=times[order],
        prompt_tokens=trace.prompt_tokens[near],
        output_tokens=trace.output_tokens[near],
        tenants=trace.tenants[near],
        cached_tokens=None if trace.cached_tokens is None else trace.cached_tokens[near],
        batch_work=None if trace.batch_work is None else trace.batch_work[near],
        method=(*trace.method, f"rate × {factor:g}: copies up to {apart:.3g} s later, lengths of requests nearby"),
    )


def with_lengths_of(trace: Trace, other: Trace, seed: int) -> Trace:
    """A trace of the same arrivals, each with the lengths of a randomly drawn request of another trace."""
    drawn = np.random.default_rng([seed, 5]).integers(0, len(other), len(trace))
    return replace(
        trace,
        prompt_tokens=other.prompt_tokens[drawn],
        output_tokens=other.output_tokens[drawn],
        cached_tokens=None,
        method=(*trace.method, f"lengths of {other.name}"),
    )


def between(trace: Trace, start: float, end: float) -> Trace:
    """The trace from `start` to `end`, shifted so that it begins at 0."""
    cut = trace.where((trace.times >= start) & (trace.times < end), f"from {start:g} s to {end:g} s")
    return replace(cut, times=cut.times - start)


def synthetic(
    name: str,
    rate: Rate,
    seconds: float,
    seed: int,
    *,
    lengths: tuple[float, float] = (500, 200),
    spread: float = 0.0,
    burstiness: float = 1.0,
) -> Trace:
    """A trace with arrivals at a rate that changes with time, and lengths around the given means.

    `spread` is the coefficient of variation of the lengths (log-normal; 0 for equal lengths). `burstiness` is the
    coefficient of variation of the times between arrivals (Gamma; 1 is Poisson), relative to the rate at that time.
    """
    draw = np.random.default_rng([seed, 2])
    grid = np.linspace(0.0, seconds, max(2, int(seconds) + 1))
    expected = np.concatenate([[0.0], np.cumsum((rate(grid[1:]) + rate(grid[:-1])) / 2 * np.diff(grid))])
    shape = 1 / burstiness**2
    count = int(expected[-1] + 6 * burstiness * expected[-1] ** 0.5 + 20)
    marks = np.cumsum(draw.gamma(shape, 1 / shape, count))
    times = np.interp(marks[marks < expected[-1]], expected, grid)
    return Trace(
        name=name,
        times=times,
        prompt_tokens=_lengths(draw, lengths[0], spread, len(times)),
        output_tokens=_lengths(draw, lengths[1], spread, len(times)),
        tenants=np.zeros(len(times), dtype=np.int64),
        method=(f"synthetic, seed {seed}",),
    )


def _lengths(draw: np.random.Generator, mean: float, spread: float, count: int) -> Integers:
    if spread <= 0:
        return np.full(count, round(mean), dtype=np.int64)
    sigma = np.sqrt(np.log1p(spread**2))
    drawn = draw.lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    return np.rint(drawn).astype(np.int64).clip(1)


def steady(per_second: float) -> Rate:
    return lambda times: np.full_like(times, per_second)


def steps(*changes: tuple[float, float]) -> Rate:
    """A rate that changes in steps: (from second, requests per second), in order of time; the first is at 0."""
    begins, rates = np.array([at for at, _ in changes]), np.array([rate for _, rate in changes])
    return lambda times: rates[(np.searchsorted(begins, times, side="right") - 1).clip(0)]


def ramp(start: float, from_rate: float, end: float, to_rate: float) -> Rate:
    """A rate that changes linearly from one value to another."""
    return lambda times: np.interp(times, [start, end], [from_rate, to_rate])


def noisy(rate: Rate, percent: float, seed: int, every_seconds: float = 60.0) -> Rate:
    """A rate that differs from `rate` by up to `percent`, drawn anew each minute."""
    draws = np.random.default_rng([seed, 3]).uniform(-1, 1, 100_000)
    return lambda times: rate(times) * (1 + percent / 100 * draws[(times / every_seconds).astype(np.int64) % 100_000])


def diurnal(mean: float, peak_factor: float, *, day_seconds: float = 86_400.0) -> Rate:
    """The daily curve of capacity plans, with one peak at noon; the peak is `peak_factor` times the mean."""
    slots = np.array(day_rates(peak_factor))
    middles = (np.arange(len(slots)) + 0.5) / len(slots)
    return lambda times: mean * np.interp((times / day_seconds) % 1.0, middles, slots, period=1.0)


_SHAPES: Final[dict[tuple[str, int], Callable[..., Rate]]] = {
    ("steady", 1): steady,
    ("step", 3): lambda low, high, at: steps((0.0, low), (at, high)),
    ("ramp", 4): lambda low, high, start, end: ramp(start, low, end, high),
    ("diurnal", 2): diurnal,
}


def parse_shape(text: str, seconds: float, seed: int, lengths: tuple[float, float]) -> Trace:
    """The trace of a shape: `steady:20`, `step:10,30@600`, `ramp:10,30@600-1200` or `diurnal:20,1.8`.

    Rates are requests a second. Raises ValueError.
    """
    return synthetic(text, shape_rate(text), seconds, seed, lengths=lengths, spread=SHAPE_SPREAD)


def shape_rate(text: str) -> Rate:
    """The rate of a shape such as `steady:20`. Raises ValueError."""
    kind, _, rest = text.partition(":")
    numbers = [part for part in rest.replace("@", ",").replace("-", ",").split(",") if part]
    try:
        values = [float(number) for number in numbers]
        return _SHAPES[kind, len(values)](*values)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"shape: {text!r} is not known; use steady:RATE, step:RATE,RATE@SECOND, ramp:RATE,RATE@SECOND-SECOND or "
            "diurnal:MEAN,PEAKFACTOR"
        ) from error
