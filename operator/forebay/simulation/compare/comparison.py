"""One service on one trace under several policies: the same arrivals, lengths, starts and router for all of them.

What is the same for all is a `ComparedCase`. The true engine differs from the profile that the planner
believes by a drawn ±20 %. Every figure of a result is of the run it names; nothing is carried over from another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np

from forebay.capacity.model.replica_model import Mix, Promise, capacity
from forebay.capacity.model.replica_model import load as load_of
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.simulation.cluster.closed_loop import ClosedLoop, LoopOutcome, LoopSettings
from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.gateway_model import GatewaySettings
from forebay.simulation.cluster.planner_control import Decided, PlannerControl
from forebay.simulation.cluster.policy import Control, PolicyControl
from forebay.simulation.cluster.served_model import ServedModel, drawn_profile, limits_of
from forebay.simulation.compare.oracle import Needs, Oracle, needs, static_peak
from forebay.simulation.compare.outcome import ClassShare, RunOutcome, Summary
from forebay.simulation.fluid.fluid_need import flow_needs
from forebay.simulation.peers.assumed_engine import AssumedEngine
from forebay.simulation.peers.peer_grid import PeerInputs, PeerSetting
from forebay.simulation.traffic.flow import BIN_SECONDS, Flow
from forebay.simulation.traffic.traces import Trace
from forebay.world.world import ServiceKey, ServiceView, WarmPoolView

FOREBAY = "Forebay"
TUNED = " (tuned)"
"""Behind the name of a rule that plays with its best setting."""
TAIL_SECONDS = 60.0
"""Played on after the last arrival, so that an answer under way at the end is not called unfinished."""
INITIAL_LOAD_SECONDS = 120.0
"""What stands at the beginning is what the first minutes need."""
MEAN_VALUE_SHARE = 0.9
"""Of the capacity by mean values: what the batch of peers is measured in, whatever Forebay makes of a mix."""
STRICT_TOKEN_SECONDS = 0.025
"""Between tokens: the tighter of the two limits that benchmarks of serving use."""
PRODUCT_LABEL = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """What all policies meet."""

    model: ServedModel
    trace: Trace | Flow
    """Requests are played one by one, a flow as a fluid."""
    seconds: float
    seed: int = 0
    starts: ColdStarts = field(default_factory=ColdStarts)
    windows: tuple[tuple[float, float], ...] = ()
    """Scheduled peaks, begin and end."""
    window_replicas: int = 1
    """Their floor: the highest, where they have several."""
    window_floors: tuple[int, ...] = ()
    """Of each window; empty where all have the same."""
    epoch: float = 1_750_000_000.0
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    judged_by: Promise | None = None
    """What counts as in time, where that is not the promise of the service's own spec."""
    flash_crowd: tuple[float, float] | None = None
    """A flash crowd: from when to when."""
    warm_pools: tuple[WarmPoolView, ...] = ()
    """Beside the service: Forebay holds their places, on nodes of their own if the service's nodes are not theirs."""

    @property
    def key(self) -> ServiceKey:
        return self.model.view.key

    @property
    def kind(self) -> Literal["discrete", "fluid"]:
        """Which model plays it."""
        return "fluid" if isinstance(self.trace, Flow) else "discrete"

    @property
    def mix(self) -> Mix:
        return self.trace.mix if isinstance(self.trace, Flow) else Mix.of(self.trace.lengths)

    @property
    def replica_capacity(self) -> ReplicaCapacity:
        """One replica as the planner believes it to be."""
        assert self.model.view.replica_capacity is not None
        return self.model.view.replica_capacity

    @property
    def promise(self) -> Promise:
        """Of the service's own spec: what every policy aims at."""
        return self.replica_capacity.promise

    @property
    def judging_promise(self) -> Promise:
        """What counts as in time."""
        return self.judged_by or self.promise

    @property
    def played_seconds(self) -> float:
        """Of a run."""
        return self.seconds + TAIL_SECONDS

    @property
    def bounds(self) -> tuple[int, int]:
        spec = self.model.view.spec
        assert spec is not None
        return max(1, spec.scaling.min_replicas), spec.scaling.max_replicas

    def setting(self, initial_replicas: int) -> LoopSettings:
        """As many GPUs as maxReplicas and the surge may hold at once, and what leaves while others come."""
        view = self.model.view
        assert view.wanted is not None
        assert view.spec is not None
        shape = view.wanted.shape
        gpus = 2 * self.bounds[1] * shape.gpus
        labels = dict(shape.node_selector)
        if view.spec.gpu.product is not None:
            labels[PRODUCT_LABEL] = view.spec.gpu.product
        pool = NodePool(
            nodes=max(ceil(gpus / 8), shape.pods),
            gpus_per_node=8,
            resource_name=shape.resource_name,
            labels=tuple(labels.items()),
        )
        return LoopSettings(
            pools=(pool, *(_nodes_of_pool(one, labels) for one in self.warm_pools)),
            warm_pools=self.warm_pools,
            starts=self.starts,
            seed=self.seed,
            epoch=self.epoch,
            initial_replicas={self.key: initial_replicas},
            gateway=self.gateway,
        )


def _nodes_of_pool(pool: WarmPoolView, labels: Mapping[str, str]) -> NodePool:
    """Room for a WarmPool's places; where the service's nodes would do for them, its pods may take them."""
    assert pool.shape is not None, "what was read from a manifest has a shape"
    selector = dict(pool.shape.node_selector)
    max_replicas = max((pool.placeholders, *(schedule.placeholders for schedule in pool.schedules)))
    return NodePool(
        name=f"warm-{pool.key.name}",
        nodes=ceil(max_replicas * pool.shape.gpus_per_pod / 8),
        gpus_per_node=max(8, pool.shape.gpus_per_pod),
        resource_name=pool.shape.resource_name,
        labels=tuple((labels if selector.items() <= labels.items() else selector).items()),
    )


def true_model(view: ServiceView, seed: int, within: float) -> ServedModel:
    """The service with an engine that is off from its profile by a drawn factor for each coefficient.

    Raises ValueError for a service whose engine is not known.
    """
    replica_capacity = view.replica_capacity
    if view.problems:
        raise ValueError(f"{view.key} cannot be simulated: {'; '.join(problem.message for problem in view.problems)}")
    if replica_capacity is None:
        raise ValueError(
            f"{view.key} cannot be simulated: its model or GPU is not known; name both in the manifest, or give "
            "model.architecture and a PerformanceProfile"
        )
    profile = drawn_profile(replica_capacity.engine.step_profile, seed, within)
    return ServedModel(view, profile, limits_of(view, profile))


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One policy's run."""

    name: str
    version: str
    target: str
    outcome: LoopOutcome
    summary: Summary
    by_tenant: tuple[tuple[str, int, int], ...]
    """(tenant, asked, served in time) requests."""
    by_class: Mapping[str, ClassShare]
    """Interactive and batch requests."""
    strict_attainment: float | None = None
    """The share in time were 25 ms promised between tokens; None for a flow, which is judged while it is played."""
    recovery_seconds: float | None = None
    """From the beginning of a flash crowd until its requests are in time again; infinite when they never were."""
    decisions: tuple[Decided, ...] = ()


@dataclass
class Comparison:
    """Runs policies on a case; what all of them rest on is found once."""

    case: ComparedCase
    on_progress: Callable[[float], None] = lambda share: None
    """Told how much of a run has been played, 0 to 1."""

    @cached_property
    def needs(self) -> Needs:
        case, (min_replicas, max_replicas) = self.case, self.case.bounds
        seconds = case.played_seconds
        if isinstance(case.trace, Flow):
            return flow_needs(
                case.trace,
                case.model,
                case.judging_promise,
                seconds=seconds,
                min_replicas=min_replicas,
                max_replicas=max_replicas,
            )
        return needs(
            case.trace,
            case.model,
            case.judging_promise,
            seconds=seconds,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
        )

    @cached_property
    def fleet(self) -> Needs:
        """What the oracle runs."""
        return self.needs.fleet(self.case.starts.ready_seconds)

    @cached_property
    def mix(self) -> Mix:
        return self.case.mix

    @cached_property
    def requests_per_second(self) -> float:
        """Of one replica, by the profile that is believed and the published rule of thumb, which peers' users have."""
        engine = replace(self.case.replica_capacity.engine, usable_share=MEAN_VALUE_SHARE)
        return capacity(engine, self.mix, self.case.promise).requests_per_second

    @property
    def batch(self) -> float:
        """Sequences that one replica works on at its latency limit, by the same profile."""
        return load_of(self.case.replica_capacity.engine, self.mix, self.requests_per_second).sequences

    @cached_property
    def peer_inputs(self) -> PeerInputs:
        """What peers are set up with: the profile that is believed, not the true one."""
        case, replica_capacity = self.case, self.case.replica_capacity
        return PeerInputs(
            engine=AssumedEngine(
                replica_capacity.engine.step_profile,
                case.model.limits.max_num_seqs,
                case.model.limits.max_num_batched_tokens,
            ),
            promise=case.promise,
            batch=self.batch,
            windows=case.windows,
            window_replicas=case.window_replicas,
            static_count=static_peak(self.needs),
        )

    def initial_replicas(self) -> int:
        """What serves at the beginning: the need of the first minutes, by the profile that is believed."""
        min_replicas, max_replicas = self.case.bounds
        first = _requests_before(self.case.trace, INITIAL_LOAD_SECONDS)
        if first == 0:
            return min_replicas
        each = capacity(self.case.replica_capacity.engine, self.mix, self.case.promise).requests_per_second
        return min(max_replicas, max(min_replicas, ceil(1.2 * first / INITIAL_LOAD_SECONDS / each)))

    def forebay(self) -> Result:
        control = PlannerControl()
        result = self._run(control, FOREBAY, "this checkout", "SLO")
        if control.errors:
            raise RuntimeError(f"the planner failed in the simulation: {control.errors[0]}")
        return replace(result, decisions=tuple(control.decisions))

    def oracle(self) -> Result:
        return self._run(PolicyControl({self.case.key: Oracle(self.fleet)}), "oracle", "", "the future")

    def peer(self, entry: PeerSetting) -> Result:
        control = PolicyControl({self.case.key: entry.policy(self.peer_inputs)})
        return self._run(control, entry.rule + (TUNED if entry.tuned else ""), entry.version, entry.target)

    def _run(self, control: Control, name: str, version: str, target: str) -> Result:
        case = self.case
        loop = ClosedLoop(case.setting(self.initial_replicas()), [case.model], {case.key: case.trace}, control)
        loop.on_tick = lambda now: self.on_progress(now / case.played_seconds)
        outcome = loop.play(case.played_seconds)[case.key]
        promise = case.judging_promise
        summary, tenants, classes = outcome.summary(promise), outcome.by_tenant(promise), outcome.by_class(promise)
        result = Result(name, version, target, outcome, summary, tenants, classes)
        if not isinstance(outcome, RunOutcome):
            return result
        strict = replace(promise, inter_token_latency=STRICT_TOKEN_SECONDS)
        return replace(
            result,
            strict_attainment=float(outcome.in_time(strict).mean()) if outcome.offered else 1.0,
            recovery_seconds=None if case.flash_crowd is None else outcome.recovery_seconds(promise, *case.flash_crowd),
        )


def _requests_before(trace: Trace | Flow, seconds: float) -> int:
    if isinstance(trace, Flow):
        return round(float(trace.requests[: int(seconds / BIN_SECONDS)].sum()))
    return int(np.searchsorted(trace.times, seconds))
