"""The page of the scale benchmark is made from its results, and cumulative series give the cost of single ticks."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.scale.fleet import Size
from bench.scale.page import BEGIN, END, PAGE, RESULTS, page, table
from bench.scale.readings import AGES, OBSERVE_CPU, PLAN_CPU, PLANS, REQUESTS, SCRAPES, TICK_SECONDS, TICKS, measure
from bench.scale.usage import cpu_seconds, megabytes, tree


def test_the_committed_page_shows_the_committed_results():
    text = PAGE.read_text()
    assert page(text, json.loads(RESULTS.read_text())) == text


def test_a_size_is_services_and_pods_of_each():
    size = Size.parse("1000x10")
    assert (size.services, size.replicas, size.pods, str(size)) == (1000, 10, 10_000, "1000x10")


def a_row(**fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"services": 1000, "pods": 10_000, "planSeconds": 0.4567, "planSecondsInOperation": 0.2}
    row |= {"planTicks": 5, "planSecondsWhole": 1.9}
    row |= {"planSecondsAtRest": 0.05, "tickSeconds": 0.9, "worstTickSeconds": 1.25, "megabytes": 432.1}
    row |= {"requestsPerTick": 12.34, "startSeconds": 12.3, "oldestSignalSeconds": 24.6, "scrapesPerSecond": 499.6}
    row |= {"createSeconds": 321.0, "cores": {"operator": 0.8, "fleetSim": 0.4, "controlPlane": 0.6}}
    return row | fields


def results(*rows: dict[str, Any]) -> dict[str, Any]:
    measured = {"version": "0.1.0", "commit": "abc", "date": "2026-01-01", "machine": "2 cores", "says": "A quiet one."}
    return {**measured, "rows": list(rows)}


def test_the_table_says_what_it_was_measured_on_and_has_one_row_per_size():
    first, _, head, _, *rows = table(results(a_row(), a_row(services=100, pods=1000))).splitlines()
    assert first == "Forebay 0.1.0, commit abc, 2026-01-01, 2 cores. A quiet one."
    assert [row.split("|")[1].strip() for row in (head, *rows)] == ["services × pods", "1,000 × 10", "100 × 10"]
    assert (
        "| 0.457 s | 5 | 1.9 s | 0.200 s | 0.050 s | 0.900 s | 1.2 s | 432 MB | 12.3 | 12.3 s | 25 s | 500 |" in rows[0]
    )


def test_what_was_not_measured_is_said():
    *_, row = table(results(a_row(planSecondsAtRest=None))).splitlines()
    assert "| 0.200 s | not measured | 0.900 s |" in row


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(SystemExit, match="0 places"):
        page(f"{END} {BEGIN}", results(a_row()))


@dataclass
class ScriptedOperator:
    """An OperatorProcess that has done one more tick at every second reading."""

    pid: int = field(default_factory=os.getpid)
    alive: bool = True
    log_file: Path = Path(os.devnull)
    readings: int = 0

    def metrics(self, *names: str) -> dict[str, float]:
        if names == (REQUESTS,):
            return {f'{REQUESTS}{{verb="list"}}': 2.0 * (self.readings // 2), f'{REQUESTS}{{verb="patch"}}': 5.0}
        if names == (AGES,):
            return {f"{AGES}{{service={name}}}": age for name, age in (("a", 3.0), ("b", 4.0 + self.readings))}
        ticks = self.readings // 2
        self.readings += 1
        # Every third tick has no scrape before it.
        scrapes = 100.0 * (ticks - ticks // 3)
        return {
            TICKS: ticks,
            TICK_SECONDS: 0.5 * ticks,
            PLANS: ticks,
            PLAN_CPU: 0.25 * ticks,
            OBSERVE_CPU: 0.125 * ticks,
        } | {SCRAPES: scrapes}


def test_ticks_are_the_differences_between_readings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.scale.readings.PAUSE_SECONDS", 0.0)
    operator: Any = ScriptedOperator()
    found = measure(operator, 3, {"operator": (os.getpid(),)})
    assert [(tick.seconds, tick.plan_cpu_seconds, tick.observe_cpu_seconds) for tick in found.ticks] == [
        (0.5, 0.25, 0.125)
    ] * 3
    assert [tick.scrapes for tick in found.ticks] == [100.0, 100.0, 0.0]
    assert (found.requests, found.scrapes, found.oldest_signal_seconds) == (6.0, 200.0, 11.0)
    rest = measure(operator, 2, {}, counts=lambda tick: tick.scrapes == 0.0)
    assert [tick.scrapes for tick in rest.ticks] == [0.0, 0.0]


BUSY_THEN_WAITS = """
import sys, time
while time.process_time() < 0.1: pass
print(flush=True)
sys.stdin.read()
"""


def test_children_count_and_shared_memory_counts_once():
    command = [sys.executable, "-c", BUSY_THEN_WAITS]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert {os.getpid(), child.pid} <= set(tree(os.getpid()))
        assert 1.0 < megabytes(child.pid) < megabytes(os.getpid())
        assert 0.05 < cpu_seconds([child.pid]) < cpu_seconds([os.getpid()])
    finally:
        child.communicate()
    assert megabytes(child.pid) == 0.0
