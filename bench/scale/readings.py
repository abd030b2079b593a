"""Readings: ticks seen from outside, by the operator's own metrics read a few times a second.

The series are cumulative, so the difference between two readings is what the ticks between them took. Ticks are further
apart than readings; where two fall into one difference, both count with their mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

from bench.scale.usage import cpu_seconds, megabytes
from e2e.harness import eventually
from e2e.operator_process import OperatorProcess

PAUSE_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 300.0
PLAN_CPU = 'forebay_stage_cpu_seconds_total{stage="plan"}'
OBSERVE_CPU = 'forebay_stage_cpu_seconds_total{stage="observe"}'
PLANS = 'forebay_stage_duration_seconds_count{stage="plan"}'
TICKS, TICK_SECONDS = "forebay_tick_duration_seconds_count", "forebay_tick_duration_seconds_sum"
SCRAPES = "forebay_scrapes_total"
LOOP_SERIES = (
    *("forebay_stage_cpu_seconds_total", "forebay_stage_duration_seconds_count"),
    *(TICKS, TICK_SECONDS, SCRAPES),
)
REQUESTS, AGES = "forebay_api_requests_total", "forebay_scrape_age_seconds"


@dataclass(frozen=True, slots=True)
class TickCost:
    """What one tick took."""

    seconds: float
    plan_cpu_seconds: float
    observe_cpu_seconds: float
    scrapes: float
    """Scrapes that ended since the tick before, so at most that many signals were new."""


@dataclass(slots=True)
class Measured:
    """Ticks of a running operator, and its processes meanwhile."""

    ticks: list[TickCost] = field(default_factory=list)
    seconds: float = 0.0
    most_megabytes: float = 0.0
    oldest_signal_seconds: float = 0.0
    requests: float = 0.0
    """Requests of the operator to the API server, except those for its lease."""
    scrapes: float = 0.0
    cores: dict[str, float] = field(default_factory=dict)
    """CPU seconds per second, by part of the machine."""

    def median(self, what: Callable[[TickCost], float]) -> float:
        return median(map(what, self.ticks))


def measure(
    operator: OperatorProcess,
    ticks: int,
    parts: Mapping[str, tuple[int, ...]],
    counts: Callable[[TickCost], bool] = lambda tick: True,
) -> Measured:
    """Watch the operator until so many ticks have been seen that count. `parts` are the pids of the machine's parts."""
    found, began = Measured(), time.monotonic()
    cpu_before = {part: cpu_seconds(pids) for part, pids in parts.items()}
    at_last_tick = read(operator, *LOOP_SERIES)
    requests_before, scrapes_before = requests(operator), at_last_tick[SCRAPES]
    last_tick_at = began
    while len(found.ticks) < ticks:
        assert operator.alive, f"the operator ended: {operator.log_file.read_text()[-2000:]}"
        assert time.monotonic() - last_tick_at < LONGEST_WAIT_SECONDS, "no tick counts for five minutes"
        time.sleep(PAUSE_SECONDS)
        now = read(operator, *LOOP_SERIES)
        if now.get(PLANS, 0.0) == at_last_tick[PLANS] or now[TICKS] == at_last_tick[TICKS]:
            continue
        found.most_megabytes = max(found.most_megabytes, megabytes(operator.pid))
        ages = read(operator, AGES).values()
        found.oldest_signal_seconds = max((found.oldest_signal_seconds, *ages))
        cost = _cost(at_last_tick, now)
        at_last_tick = now
        if counts(cost):
            found.ticks.append(cost)
            last_tick_at = time.monotonic()
    found.seconds = time.monotonic() - began
    found.requests = requests(operator) - requests_before
    found.scrapes = at_last_tick[SCRAPES] - scrapes_before
    found.cores = {part: (cpu_seconds(pids) - cpu_before[part]) / found.seconds for part, pids in parts.items()}
    return found


def requests(operator: OperatorProcess) -> float:
    return sum(read(operator, REQUESTS).values())


def read(operator: OperatorProcess, *names: str) -> dict[str, float]:
    """The series as soon as the operator answers; beside a large fleet on a small machine it may be late."""
    return eventually(lambda: operator.metrics(*names), within=LONGEST_WAIT_SECONDS, what="an answer of the operator")


def _cost(before: Mapping[str, float], now: Mapping[str, float]) -> TickCost:
    ticks, plans = now[TICKS] - before[TICKS], now[PLANS] - before[PLANS]
    return TickCost(
        seconds=(now[TICK_SECONDS] - before[TICK_SECONDS]) / ticks,
        plan_cpu_seconds=(now[PLAN_CPU] - before[PLAN_CPU]) / plans,
        observe_cpu_seconds=(now[OBSERVE_CPU] - before[OBSERVE_CPU]) / ticks,
        scrapes=(now[SCRAPES] - before[SCRAPES]) / plans,
    )
