"""The planner loop: wake, observe, plan, act; one tick at a time, for as long as the process lives.

A standby observes too, so that it can lead at once, but plans nothing and writes nothing. No failure ends the loop: it
is logged and counted, and the next turn starts from a fresh reading of the world. What a half-done tick left behind is
found there.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from forebay.controller.loop_health import Pulse, waits_for
from forebay.controller.operator_metrics import Metrics
from forebay.controller.tick_log import DecisionLog
from forebay.controller.wake import Wake
from forebay.world.plan import Plan
from forebay.world.world import ServiceKey, World

log = logging.getLogger(__name__)

S = TypeVar("S")
"""What the planner remembers between ticks; the loop only carries it."""


@dataclass(frozen=True, slots=True)
class Stations(Generic[S]):
    """The stations of a tick, as functions, so that tests can put others in their place."""

    observe: Callable[[float], Awaitable[World]]
    plan: Callable[[World, S, float], tuple[Plan, S]]
    act: Callable[[World, Plan, float], Awaitable[int]]
    """Carries the plan out; the number of actions that failed. Raises only when nothing more could be done."""
    empty_state: Callable[[float], S]


@dataclass(frozen=True, slots=True)
class LoopPace:
    tick_seconds: float = 5.0
    shortest_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 30.0
    """Below the health limit, or an outage would look like a loop that stands still."""


class Loop(Generic[S]):
    """`run` returns only after `Wake.stop`.

    `is_leader` says whether this process may write right now; `now` is wall time in unix seconds, `monotonic` never
    jumps.
    """

    def __init__(
        self,
        stations: Stations[S],
        *,
        is_leader: Callable[[], bool],
        wake: Wake,
        pulse: Pulse,
        metrics: Metrics,
        pace: LoopPace,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stations = stations
        self._is_leader = is_leader
        self._wake = wake
        self._pulse = pulse
        self._metrics = metrics
        self._pace = pace
        self._now = now
        self._monotonic = monotonic
        self._decisions = DecisionLog(metrics.decisions)
        self._state: S | None = None
        self._failures = 0
        self._stage = ""

    async def run(self) -> None:
        """Tick until stopped. A tick that has begun is finished, its writes included."""
        while not self._wake.stopped:
            wait_seconds = await self._turn()
            if self._failures:
                await self._wake.pause(wait_seconds)
            else:
                reasons = await self._wake.next(wait_seconds)
                log.debug("tick because of %s", ", ".join(reasons) or "the time")

    async def _turn(self) -> float:
        """One attempt at a tick; the seconds to wait after it."""
        started = self._monotonic()
        try:
            wait_seconds = await self._tick(self._now())
        except Exception as error:  # noqa: BLE001 - whatever it is, the loop must go on and say so
            return self._failed(error)
        finished = self._monotonic()
        self._metrics.tick_seconds.observe(finished - started)
        if self._failures:
            log.info("ticking again after %d failed attempts", self._failures)
        self._failures = 0
        self._pulse.beat(finished)
        return wait_seconds

    async def _tick(self, now: float) -> float:
        with self._timed("observe"):
            world = await self._stations.observe(now)
        self._metrics.show_scrape_ages(_scrape_ages(world, now))
        if not self._may_lead(now):
            return self._pace.tick_seconds
        with self._timed("plan"):
            assert self._state is not None
            # Remembered before it is carried out: limits on drains and creations then err on counting too many.
            plan, self._state = self._stations.plan(world, self._state, now)
        self._decisions.note(plan)
        self._metrics.show_plan(plan)
        self._metrics.errors.labels("service").inc(sum(service.error is not None for service in plan.services))
        if plan.held is None and self._is_leader():
            with self._timed("apply"):
                failed_actions = await self._stations.act(world, plan, now)
            self._metrics.errors.labels("action").inc(failed_actions)
        return min(self._pace.tick_seconds, plan.wake_in_seconds or self._pace.tick_seconds)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """What fails inside fails at this stage; what succeeds is timed."""
        self._stage = stage
        started = self._monotonic()
        yield
        self._metrics.stage_seconds.labels(stage).observe(self._monotonic() - started)

    def _may_lead(self, now: float) -> bool:
        """Whether to plan; what was remembered from an earlier term is dropped when a new one begins."""
        leading = self._is_leader()
        if leading and not self._pulse.leading:
            log.info("this replica leads")
            self._state = self._stations.empty_state(now)
        self._pulse.leading = leading
        return leading

    def _failed(self, error: Exception) -> float:
        """Account for a failed turn; the seconds to wait before the next, doubling up to the longest."""
        self._metrics.errors.labels(self._stage).inc()
        self._pulse.miss(self._monotonic(), error)
        wait_seconds = min(
            self._pace.shortest_backoff_seconds * 2.0 ** min(self._failures, 16), self._pace.longest_backoff_seconds
        )
        self._failures += 1
        waiting = waits_for(error)
        if waiting is not None:
            # Caches that are not filled yet are how every start begins.
            level = logging.DEBUG if self._pulse.last_tick_at is None and self._failures < 5 else logging.WARNING
            log.log(level, "%s; next attempt in %g s: %s", waiting, wait_seconds, error)
        else:
            log.error(
                "tick failed at %s; next attempt in %g s",
                self._stage,
                wait_seconds,
                exc_info=error,
                extra={"stage": self._stage},
            )
        return wait_seconds


def _scrape_ages(world: World, now: float) -> dict[ServiceKey, float]:
    """Age of the oldest last good sample per service; services none of whose pods ever answered are left out."""
    ages: dict[ServiceKey, float] = {}
    for pod in world.pods:
        signals = world.signals.get(pod.uid)
        if pod.ready and signals is not None and signals.sample is not None:
            ages[pod.key] = max(ages.get(pod.key, 0.0), now - signals.sample.taken_at)
    return ages
