"""Metrics pages that differ from the true state of the engine, as `page` functions for the scrape model."""

import re
from collections.abc import Callable
from math import inf

from forebay.simulation.cluster.scrape_model import PageFilter
from forebay.simulation.cluster.simulated_replica import SimulatedReplica

_COUNTER = re.compile(r"^(vllm:\w+(?:_total|_count|_sum|_bucket)(?:\{.*\})?) (\S+)$", re.MULTILINE)
RUNNING, WAITING, KV = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting(?:_by_reason)?",
    "vllm:kv_cache_usage_perc",
)


def silent(text: str) -> str | None:
    return None


def renamed(series: str) -> Callable[[str], str]:
    return lambda text: text.replace(f"{series}{{", f"{series}_of_another_release{{")


def saying(value: str, *series: str) -> Callable[[str], str]:
    """Replace the values of the given series."""
    pattern = re.compile(rf"^((?:{'|'.join(series)})(?:\{{.*\}})?) \S+$", re.MULTILINE)
    return lambda text: pattern.sub(rf"\g<1> {value}", text)


def between(since: float, until: float, change: Callable[[str], str | None], only: int | None = None) -> PageFilter:
    """Apply `change` from `since` until `until`, on every replica or only on the replica with the given number."""

    def page(replica: SimulatedReplica, text: str) -> str | None:
        engine = replica.engine
        assert engine is not None
        return change(text) if since <= engine.now < until and only in (None, replica.number) else text

    return page


def frozen(since: float, until: float = inf, only: int | None = None) -> PageFilter:
    """Repeat the first page of the time span."""
    kept: dict[str, str] = {}

    def page(replica: SimulatedReplica, text: str) -> str | None:
        return between(since, until, lambda now: kept.setdefault(replica.view.uid, now), only)(replica, text)

    return page


def counting_anew(every: float) -> PageFilter:
    """Reset all counters of a page to 0 every so many seconds."""
    bases: dict[tuple[str, int], dict[str, str]] = {}

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        base = bases.setdefault((replica.view.uid, int(replica.engine.now // every)), dict(_COUNTER.findall(text)))
        return _COUNTER.sub(lambda match: f"{match[1]} {float(match[2]) - float(base.get(match[1], 0))}", text)

    return page
