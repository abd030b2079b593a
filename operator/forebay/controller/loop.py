"""The planner loop: wait for a wake, then observe, plan and execute, one tick at a time, until the process ends.

A standby observes too, so that it can take over at once, but it neither plans nor writes. No failure ends the loop: it
is logged and counted, and the next tick reads the World afresh, including what an unfinished tick left behind.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from forebay.cluster.client.server_clock import ServerClock
from forebay.cluster.read.present_stamps import with_present_stamps
from forebay.controller.loop_health import LoopHealth, external_cause
from forebay.controller.operator_metrics import Metrics
from forebay.controller.tick_log import DecisionLog
from forebay.controller.wake import Wake
from forebay.world.plan import Plan
from forebay.world.world import ServiceKey, World

log = logging.getLogger(__name__)

S = TypeVar("S")
"""The planner's memory between ticks; the loop does not look into it."""


@dataclass(frozen=True, slots=True)
class TickSteps(Generic[S]):
    """The steps of a tick, as functions, so that tests can replace them."""

    observe: Callable[[float], Awaitable[World]]
    plan: Callable[[World, S, float], tuple[Plan, S]]
    execute: Callable[[World, Plan, float], Awaitable[int]]
    """Carries the plan out and returns the number of actions that failed. Raises only when it cannot continue."""
    empty_state: Callable[[float], S]
    forget: Callable[[], None] = lambda: None
    """Drops everything outside the state whose times are compared with `now`."""


@dataclass(frozen=True, slots=True)
class LoopPace:
    tick_seconds: float = 5.0
    shortest_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 30.0
    """Must be below the health limit, or an outage would look like a loop that hangs."""


class Loop(Generic[S]):
    """`run` returns only after `Wake.stop`.

    `is_leader` says whether this process may write right now. `clock` gives the time of the plans, which is that of the
    API server, and `monotonic` the durations of stages.
    """

    def __init__(
        self,
        steps: TickSteps[S],
        *,
        is_leader: Callable[[], bool],
        wake: Wake,
        health: LoopHealth,
        metrics: Metrics,
        pace: LoopPace,
        clock: ServerClock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps = steps
        self._is_leader = is_leader
        self._wake = wake
        self._health = health
        self._metrics = metrics
        self._pace = pace
        self._clock = clock
        self._clock_steps = clock.steps
        self._monotonic = monotonic
        self._decisions = DecisionLog(metrics.decisions)
        self._state: S | None = None
        self._failures = 0
        self._stage = ""

    async def run(self) -> None:
        """Tick until stopped. A tick that has begun is finished, its writes included."""
        while not self._wake.stopped:
            wait_seconds = await self._attempt_tick()
            if self._failures:
                await self._wake.pause(wait_seconds)
            else:
                reasons = await self._wake.next(wait_seconds)
                log.debug("tick because of %s", ", ".join(reasons) or "the regular interval")

    async def _attempt_tick(self) -> float:
        """Run one tick and return the seconds to wait after it."""
        started = self._monotonic()
        try:
            wait_seconds = await self._tick()
        except Exception as error:  # noqa: BLE001 - no error may end the loop
            return self._record_failure(error)
        finished = self._monotonic()
        self._metrics.tick_seconds.observe(finished - started)
        if self._failures:
            log.info("ticking again after %d failed attempts", self._failures)
        self._failures = 0
        self._health.tick_succeeded(finished)
        return wait_seconds

    async def _tick(self) -> float:
        world = await self._observe()
        # Read after the observation, which asks the API server: its first answer tells the time.
        now = self._clock.now()
        self._metrics.show_scrape_ages(_scrape_ages(world, now))
        if not self._update_leadership(now):
            return self._pace.tick_seconds
        if self._clock.in_doubt:
            log.info("this tick plans nothing: the API server's clock may have been set")
            return self._pace.tick_seconds
        with self._timed("plan"):
            assert self._state is not None
            # Stored before the plan is executed, so the limits on drains and creations can only count too many.
            plan, self._state = self._steps.plan(world, self._state, now)
        self._decisions.note(plan)
        self._metrics.show_plan(plan)
        self._metrics.errors.labels("service").inc(sum(service.error is not None for service in plan.services))
        if plan.held is None and self._is_leader():
            with self._timed("apply"):
                failed_actions = await self._steps.execute(world, plan, now)
            self._metrics.errors.labels("action").inc(failed_actions)
        return min(self._pace.tick_seconds, plan.wake_in_seconds or self._pace.tick_seconds)

    async def _observe(self) -> World:
        """The World now. When the API server's clock was set, memory and signals from before are dropped."""
        with self._timed("observe"):
            world = await self._steps.observe(self._clock.now())
            if self._clock.steps != self._clock_steps:
                self._clock_steps = self._clock.steps
                self._steps.forget()
                self._state = self._steps.empty_state(self._clock.now())
                world = await self._steps.observe(self._clock.now())
            return with_present_stamps(world, self._clock) if self._clock_steps else world

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Name the stage, so that a failure is counted for it, and measure it when it succeeds."""
        self._stage = stage
        started, cpu_started = self._monotonic(), time.thread_time()
        yield
        self._metrics.stage_cpu_seconds.labels(stage).inc(time.thread_time() - cpu_started)
        self._metrics.stage_seconds.labels(stage).observe(self._monotonic() - started)

    def _update_leadership(self, now: float) -> bool:
        """Whether this process leads. A new term starts without the memory of an earlier one."""
        leading = self._is_leader()
        if leading and not self._health.leading:
            log.info("this operator is now the leader")
            self._state = self._steps.empty_state(now)
        self._health.leading = leading
        return leading

    def _record_failure(self, error: Exception) -> float:
        """Log and count a failed tick; return the seconds to wait, which double up to the longest backoff."""
        self._metrics.errors.labels(self._stage).inc()
        self._health.tick_failed(self._monotonic(), error)
        wait_seconds = min(
            self._pace.shortest_backoff_seconds * 2.0 ** min(self._failures, 16), self._pace.longest_backoff_seconds
        )
        self._failures += 1
        cause = external_cause(error)
        if cause is not None:
            # The caches are empty at every start, so the first few failures deserve no warning.
            level = logging.DEBUG if self._health.last_tick_at is None and self._failures < 5 else logging.WARNING
            log.log(level, "%s; next attempt in %g s: %s", cause, wait_seconds, error)
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
    """The age of the oldest last good sample of each service; services without any sample are absent."""
    ages: dict[ServiceKey, float] = {}
    for pod in world.pods:
        signals = world.signals.get(pod.uid)
        if pod.ready and signals is not None and signals.sample is not None:
            ages[pod.key] = max(ages.get(pod.key, 0.0), now - signals.sample.taken_at)
    return ages
