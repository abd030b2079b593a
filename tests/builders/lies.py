"""Lies: how a metric may differ from the truth, for tests that draw some of them."""

from collections.abc import Callable, Mapping

Liar = Callable[[float, float], float | None]
"""The value told, from the honest one and the first one of the lie; None where the metric is missing."""

LIARS: Mapping[str, Liar] = {
    "NaN": lambda honest, first: float("nan"),
    "infinite": lambda honest, first: float("inf"),
    "huge": lambda honest, first: 1.7e308,
    "a million times as much": lambda honest, first: honest * 1e6 + 1e6,
    "negative": lambda honest, first: -honest - 1,
    "zero": lambda honest, first: 0.0,
    "frozen": lambda honest, first: first,
    "reset": lambda honest, first: honest - first,
    "missing": lambda honest, first: None,
}
