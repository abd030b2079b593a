"""Configured traffic of a simulated service: a rate with a shape over time, and the length of its requests.

Arrivals are Poisson. Each service has its own random generator, so runs can be repeated and services are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi
from random import Random
from typing import Any, Final

MOST_REQUESTS_PER_SECOND: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class Wave:
    """A cosine between `low` and 1 times the rate, once per period, lowest at its start."""

    period_seconds: float
    low: float

    def factor(self, seconds: float) -> float:
        """The factor on the rate, `seconds` after the traffic began."""
        return self.low + (1 - self.low) * (1 - cos(2 * pi * seconds / self.period_seconds)) / 2


@dataclass(frozen=True, slots=True)
class Steps:
    """Factors on the rate from given times on; if `repeat_seconds` is set, the steps repeat after that time."""

    steps: tuple[tuple[float, float], ...]
    repeat_seconds: float | None = None

    def factor(self, seconds: float) -> float:
        """The factor on the rate, `seconds` after the traffic began; 1 before the first step."""
        if self.repeat_seconds:
            seconds %= self.repeat_seconds
        factor = 1.0
        for start, value in self.steps:
            if start > seconds:
                break
            factor = value
        return factor


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests of one service's clients: rate, lengths and shape over time."""

    requests_per_second: float = 0.0
    prompt_tokens: int = 500
    output_tokens: int = 200
    shape: Wave | Steps | None = None

    def rate(self, seconds: float) -> float:
        """Requests per second, `seconds` after this traffic began."""
        return self.requests_per_second * (1.0 if self.shape is None else self.shape.factor(seconds))


class StatedArrivals:
    """Draws the arrival times of one service's traffic."""

    def __init__(self, traffic: Traffic, began: float, draw: Random) -> None:
        self.traffic = traffic
        self._began = began
        self._draw = draw

    def between(self, start: float, end: float) -> Iterator[float]:
        """Arrival times in order. The span must be short, since the rate is taken as constant over it."""
        rate = self.traffic.rate(end - self._began)
        if rate <= 0:
            return
        time = start + self._draw.expovariate(rate)
        while time <= end:
            yield time
            time += self._draw.expovariate(rate)


_KEYS: Final = ("requestsPerSecond", "promptTokens", "outputTokens", "shape")


def parse_traffic(document: Any, base: Traffic, where: str) -> Traffic:
    """Parse `{"requestsPerSecond": 12, "promptTokens": 500, "outputTokens": 200, "shape": …}`.

    Missing keys are taken from `base`, except the shape. A shape is `{"wave": {"periodSeconds": 600, "low": 0.2}}` or
    `{"steps": [[0, 1], [60, 3]], "repeatSeconds": 120}`. Raises a ValueError whose message begins with `where`.
    """
    values = _mapping(document, where, _KEYS)
    return Traffic(
        requests_per_second=_number(values, "requestsPerSecond", base.requests_per_second, where, 0),
        prompt_tokens=int(_number(values, "promptTokens", base.prompt_tokens, where, 1)),
        output_tokens=int(_number(values, "outputTokens", base.output_tokens, where, 1)),
        shape=_shape(values["shape"], f"{where}.shape") if values.get("shape") is not None else None,
    )


def _shape(document: Any, where: str) -> Wave | Steps:
    values = _mapping(document, where, ("wave", "steps", "repeatSeconds"))
    if "wave" in values:
        wave = _mapping(values["wave"], f"{where}.wave", ("periodSeconds", "low"))
        return Wave(
            period_seconds=_number(wave, "periodSeconds", 600, f"{where}.wave", 1e-3),
            low=_number(wave, "low", 0, f"{where}.wave", 0),
        )
    steps = values.get("steps")
    if not isinstance(steps, list) or not all(_is_step(step) for step in steps):
        raise ValueError(f"{where}.steps: {steps!r} is not a list of [seconds, factor]; write [[0, 1], [60, 3]]")
    repeat = _number(values, "repeatSeconds", 0, where, 0)
    return Steps(tuple((float(at), float(factor)) for at, factor in sorted(steps)), repeat or None)


def _is_step(step: Any) -> bool:
    return (
        isinstance(step, list)
        and len(step) == 2
        and all(isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 for value in step)
    )


def _mapping(document: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"{where}: {document!r} is not an object; use the keys {', '.join(keys)}")
    for key in document:
        if key not in keys:
            raise ValueError(f"{where}.{key}: not known; use {', '.join(keys)}")
    return document


def _number(values: dict[str, Any], key: str, default: float, where: str, least: float) -> float:
    value = values.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}.{key}: {value!r} is not a number")
    if not least <= value <= MOST_REQUESTS_PER_SECOND * 1000:
        raise ValueError(f"{where}.{key}: {value} is below {least:g} or absurdly large")
    return float(value)
