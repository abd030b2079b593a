"""Metrics pages that differ from the true state of the engine, as `page` functions for the scrape model."""

import re
from collections.abc import Callable, Container, Sequence
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


def removed(*series: str) -> Callable[[str], str]:
    """Leave the given series out."""
    pattern = re.compile(rf"^(?:{'|'.join(series)}).*\n", re.MULTILINE)
    return lambda text: pattern.sub("", text)


def on_replicas(numbers: Container[int], page: PageFilter) -> PageFilter:
    """Apply `page` only on the replicas with these numbers."""
    return lambda replica, text: page(replica, text) if replica.number in numbers else text


def one_after_another(pages: Sequence[PageFilter]) -> PageFilter:
    """Apply all of `pages`, each to what the one before it made of the page."""

    def page(replica: SimulatedReplica, text: str) -> str | None:
        changed: str | None = text
        for change in pages:
            changed = None if changed is None else change(replica, changed)
        return changed

    return page


def dead_requests(since: float, most: int = 35) -> PageFilter:
    """From `since` on the engine makes no step and runs nothing, and one more request waits every 10 s."""
    standing = frozen(since)

    def page(replica: SimulatedReplica, text: str) -> str | None:
        engine = replica.engine
        assert engine is not None
        still = standing(replica, text)
        if engine.now < since or still is None:
            return still
        waiting = min(most, int((engine.now - since) // 10))
        return saying("0.0", RUNNING)(saying(f"{waiting}.0", WAITING)(still))

    return page


def counting_from_last_scrape(since: float) -> PageFilter:
    """Counters show only what came since the scrape before."""
    last: dict[str, dict[str, str]] = {}

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        base, last[replica.view.uid] = last.get(replica.view.uid, {}), dict(_COUNTER.findall(text))
        if replica.engine.now < since:
            return text
        return _COUNTER.sub(lambda match: f"{match[1]} {float(match[2]) - float(base.get(match[1], 0))}", text)

    return page


def two_processes(since: float, shares: tuple[float, float]) -> PageFilter:
    """Two processes answer in turn, and each has counted its own share of the requests."""
    looks: dict[str, int] = {}

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        if replica.engine.now < since:
            return text
        look = looks[replica.view.uid] = looks.get(replica.view.uid, 0) + 1
        return _COUNTER.sub(lambda match: f"{match[1]} {round(float(match[2]) * shares[look % 2])}", text)

    return page


def at_one_scrape(at: float, change: Callable[[str], str]) -> PageFilter:
    """Apply `change` to the first page of each replica at `at` or later."""
    changed: set[str] = set()

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        if replica.engine.now < at or replica.view.uid in changed:
            return text
        changed.add(replica.view.uid)
        return change(text)

    return page


def counting_anew(every: float) -> PageFilter:
    """Reset all counters of a page to 0 every so many seconds."""
    bases: dict[tuple[str, int], dict[str, str]] = {}

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        base = bases.setdefault((replica.view.uid, int(replica.engine.now // every)), dict(_COUNTER.findall(text)))
        return _COUNTER.sub(lambda match: f"{match[1]} {float(match[2]) - float(base.get(match[1], 0))}", text)

    return page
