"""A planner loop on a cluster in memory, where the operator's clock and the API server's may be wrong or jump.

Time of the cluster is the true time: machines load and streams end by it. The API server writes stamps, and dates its
answers, with a clock that may be ahead of it; the operator's local clock may be, too.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from math import floor

from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.loop import Loop, LoopPace, TickSteps
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.controller.wake import Wake
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.scaling.load.signals import PodSignals
from forebay.world.plan import Plan
from forebay.world.world import PodView, ServiceView, World
from tests.builders.cluster import Cluster
from tests.builders.engines import Demand
from tests.builders.world import NOW
from tests.controller.virtual_time import VirtualLoop, now

Ahead = Callable[[float], float]
"""Seconds that a clock is ahead, by the seconds since the test began."""
Load = Callable[[float], Demand]

BUSY = Demand(requests=700)
CALM = Demand(requests=10)


def right(_: float) -> float:
    return 0.0


def always(ahead: float) -> Ahead:
    return lambda _: ahead


def jump(ahead: float, *, at: float) -> Ahead:
    return lambda seconds: ahead if seconds >= at else 0.0


@dataclass
class StampedCluster(Cluster):
    """A cluster whose drains are stamped by the operator, and whose operator is the loop."""

    stamp: Callable[[], float] = lambda: NOW

    def wall_clock(self) -> float:
        return self.stamp()


@dataclass
class Operated:
    """The service `chat` and its operator; `decisions` are all that it did, with the seconds since the beginning."""

    service: ServiceView
    load: Load
    local: Ahead = right
    server: Ahead = right
    decisions: list[tuple[float, str, str]] = field(default_factory=list)
    desired: list[tuple[float, int]] = field(default_factory=list)
    serving: list[tuple[float, int]] = field(default_factory=list)
    metrics: Metrics = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = StampedCluster(stamp=self._stamp)
        self.cluster.add(self.service)
        self._signals: dict[str, PodSignals] = {}

    def run(self, seconds: float) -> "Operated":
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(self._run(seconds))
        return self

    async def _run(self, seconds: float) -> None:
        self.clock = ServerClock(monotonic=now, wall=lambda: NOW + now() + self.local(now()))
        wake, health = Wake(debounce_seconds=1.0), LoopHealth(60.0, started_at=now())
        self.metrics = Metrics(health, now)
        self.metrics.show_clock(self.clock)
        loop = Loop(
            TickSteps(self._observe, plan, self._execute, State.empty, self._signals.clear),
            is_leader=lambda: True,
            wake=wake,
            health=health,
            metrics=self.metrics,
            pace=LoopPace(tick_seconds=5.0),
            clock=self.clock,
            monotonic=now,
        )
        asyncio.get_running_loop().call_later(seconds, wake.stop)
        await loop.run()
        self.skew_seconds = self.metrics.registry.get_sample_value("forebay_clock_skew_seconds")
        assert health.is_alive(now())
        assert health.error is None

    async def _observe(self, _: float) -> World:
        cluster = self.cluster
        cluster.now = NOW + now()
        cluster.demand["chat"] = self.load(now())
        cluster.live()
        for _ in range(2):
            date = formatdate(floor(cluster.now + self.server(now())), usegmt=True)
            self.clock.answered(date, now(), now())
        self._stamp_samples()
        self.serving.append((now(), len(cluster.serving("chat"))))
        world = cluster.world()
        return replace(world, pods=tuple(map(self._as_stored, world.pods)), signals=dict(self._signals))

    async def _execute(self, _: World, done: Plan, __: float) -> int:
        for share in done.services:
            for action in share.actions:
                self.decisions.append((now(), type(action).__name__, getattr(action, "name", "")))
            if share.status.decision is not None:
                self.desired.append((now(), share.status.decision.desired))
        self.cluster.apply(done)
        return 0

    def _stamp_samples(self) -> None:
        """Samples are taken now, by the operator's clock, as the scraper takes them."""
        for uid, engine in self.cluster.engines.items():
            last = engine.last
            if last is not None and last.sample is not None and last.sample.taken_at == self.cluster.now:
                self._signals[uid] = replace(last, sample=replace(last.sample, taken_at=self.clock.now()))

    def _stamp(self) -> float:
        """What the operator writes, in true time; `_as_stored` gives it back as it was written."""
        return self.clock.now() - self.server(now())

    def _as_stored(self, pod: PodView) -> PodView:
        """The pod with the stamps that the API server's clock gave it."""

        def stored(at: float | None) -> float | None:
            return None if at is None else at + self.server(at - NOW)

        created_at = stored(pod.created_at)
        assert created_at is not None
        return replace(
            pod,
            created_at=created_at,
            ready_since=stored(pod.ready_since),
            unready_since=stored(pod.unready_since),
            scheduled_at=stored(pod.scheduled_at),
            drain_started_at=stored(pod.drain_started_at),
        )

    # What tests read.

    def first(self, kind: str, *, after: float = 0.0) -> float:
        """Seconds from `after` until the first action of this kind."""
        return next(at for at, action, _ in self.decisions if action == kind and at >= after) - after

    def created(self) -> list[str]:
        return [name for _, action, name in self.decisions if action == "CreatePod"]

    def desired_at(self, seconds: float) -> int:
        """The desired count at that time."""
        return [desired for at, desired in self.desired if at <= seconds][-1]

    def serving_least(self, *, since: float) -> int:
        """Fewest replicas that served at any look from then on."""
        return min(count for at, count in self.serving if at >= since)

    def created_at(self, count: int) -> float:
        """Seconds until so many pods had been created."""
        return [at for at, action, _ in self.decisions if action == "CreatePod"][count - 1]

    def drains(self) -> dict[str, float]:
        """Seconds from the start of each drain until its deletion, by pod."""
        began = {name: at for at, action, name in self.decisions if action == "StartDrain"}
        return {
            name: at - began[name] for at, action, name in self.decisions if action == "DeletePod" and name in began
        }
