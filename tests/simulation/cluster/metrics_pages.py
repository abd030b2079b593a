"""Pages of metrics that say something else than the engine does: each is what `Scrapes` takes as `page`."""

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
    """The value in place of the true one."""
    pattern = re.compile(rf"^((?:{'|'.join(series)})(?:\{{.*\}})?) \S+$", re.MULTILINE)
    return lambda text: pattern.sub(rf"\g<1> {value}", text)


def between(since: float, until: float, change: Callable[[str], str | None], only: int | None = None) -> PageFilter:
    """Changed for so long, on every replica or on the one of that number."""

    def page(replica: SimulatedReplica, text: str) -> str | None:
        engine = replica.engine
        assert engine is not None
        return change(text) if since <= engine.now < until and only in (None, replica.number) else text

    return page


def frozen(since: float, until: float = inf, only: int | None = None) -> PageFilter:
    """The same page again and again."""
    kept: dict[str, str] = {}

    def page(replica: SimulatedReplica, text: str) -> str | None:
        return between(since, until, lambda now: kept.setdefault(replica.view.uid, now), only)(replica, text)

    return page


def counting_anew(every: float) -> PageFilter:
    """Counters that begin at nothing again every so many seconds, all of a page together."""
    bases: dict[tuple[str, int], dict[str, str]] = {}

    def page(replica: SimulatedReplica, text: str) -> str:
        assert replica.engine is not None
        base = bases.setdefault((replica.view.uid, int(replica.engine.now // every)), dict(_COUNTER.findall(text)))
        return _COUNTER.sub(lambda found: f"{found[1]} {float(found[2]) - float(base.get(found[1], 0))}", text)

    return page
