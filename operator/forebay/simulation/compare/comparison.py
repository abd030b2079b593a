"""Runs one service on one trace under several policies, with the same arrivals, lengths, starts and router for all.

A `ComparedCase` holds what is the same for all policies. The coefficients of the true engine differ from the profile
that the planner assumes by a drawn ±20 %. Every figure of a result comes from the run that it names.
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
from forebay.simulation.cluster.planner_control import PlannerControl, RecordedDecision
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
"""Suffix of a rule's name when it runs with its best setting."""
TAIL_SECONDS = 60.0
"""A run continues for this long after the last arrival, so that answers in progress can finish."""
INITIAL_LOAD_SECONDS = 120.0
"""The initial replicas are sized for the arrivals of this time."""
MEAN_VALUE_SHARE = 0.9
"""Usable share of the capacity by mean values. The batch of peers is computed with it, independent of Forebay's own
share for a mix."""
STRICT_TOKEN_SECONDS = 0.025
"""The tighter of the two limits on the time between tokens that serving benchmarks use."""
PRODUCT_LABEL = "nvidia.com/gpu.product"


@dataclass(frozen=True, slots=True)
class ComparedCase:
    """The service, traffic and cluster that all policies run with."""

    model: ServedModel
    trace: Trace | Flow
    """The traffic. A trace is played request by request, a flow as a fluid."""
    seconds: float
    seed: int = 0
    starts: ColdStarts = field(default_factory=ColdStarts)
    windows: tuple[tuple[float, float], ...] = ()
    """Begin and end of scheduled peaks."""
    window_replicas: int = 1
    """The floor of the windows, or the highest floor if they differ."""
    window_floors: tuple[int, ...] = ()
    """The floor of each window; empty if all are the same."""
    epoch: float = 1_750_000_000.0
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    judged_by: Promise | None = None
    """The promise that decides what is in time; None for the promise of the service's own spec."""
    flash_crowd: tuple[float, float] | None = None
    """Begin and end of a flash crowd."""
    warm_pools: tuple[WarmPoolView, ...] = ()
    """WarmPools beside the service, which Forebay fills. They have nodes of their own unless the service's nodes match
    their selector."""

    @property
    def key(self) -> ServiceKey:
        return self.model.view.key

    @property
    def kind(self) -> Literal["discrete", "fluid"]:
        """The kind of model that plays the traffic."""
        return "fluid" if isinstance(self.trace, Flow) else "discrete"

    @property
    def mix(self) -> Mix:
        return self.trace.mix if isinstance(self.trace, Flow) else Mix.of(self.trace.lengths)

    @property
    def replica_capacity(self) -> ReplicaCapacity:
        """The capacity of one replica, as the planner assumes it."""
        assert self.model.view.replica_capacity is not None
        return self.model.view.replica_capacity

    @property
    def promise(self) -> Promise:
        """The promise of the service's own spec, which every policy aims at."""
        return self.replica_capacity.promise

    @property
    def judging_promise(self) -> Promise:
        """The promise that decides what is in time."""
        return self.judged_by or self.promise

    @property
    def played_seconds(self) -> float:
        """Length of a run."""
        return self.seconds + TAIL_SECONDS

    @property
    def bounds(self) -> tuple[int, int]:
        spec = self.model.view.spec
        assert spec is not None
        return max(1, spec.scaling.min_replicas), spec.scaling.max_replicas

    def setting(self, initial_replicas: int) -> LoopSettings:
        """Settings of the closed loop, with enough nodes for twice maxReplicas, so that rollouts fit as well."""
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
            pools=(pool, *(_nodes_of_pool(warm_pool, labels) for warm_pool in self.warm_pools)),
            warm_pools=self.warm_pools,
            starts=self.starts,
            seed=self.seed,
            epoch=self.epoch,
            initial_replicas={self.key: initial_replicas},
            gateway=self.gateway,
        )


def _nodes_of_pool(pool: WarmPoolView, labels: Mapping[str, str]) -> NodePool:
    """Nodes for a WarmPool's placeholders.

    If the labels of the service's nodes match the pool's selector, these nodes carry the same labels, so that pods of
    the service may preempt the placeholders.
    """
    assert pool.shape is not None, "a WarmPool from a manifest has a shape"
    selector = dict(pool.shape.node_selector)
    placeholders = max((pool.placeholders, *(schedule.placeholders for schedule in pool.schedules)))
    return NodePool(
        name=f"warm-{pool.key.name}",
        nodes=ceil(placeholders * pool.shape.gpus_per_pod / 8),
        gpus_per_node=max(8, pool.shape.gpus_per_pod),
        resource_name=pool.shape.resource_name,
        labels=tuple((labels if selector.items() <= labels.items() else selector).items()),
    )


def true_model(view: ServiceView, seed: int, within: float) -> ServedModel:
    """The service with a true engine: each coefficient of its profile is multiplied by a drawn factor of 1 ± `within`.

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
    """(tenant, offered requests, requests served in time)."""
    by_class: Mapping[str, ClassShare]
    """Interactive and batch requests."""
    strict_attainment: float | None = None
    """The share in time under a limit of 25 ms between tokens; None for a flow, which is judged during the run."""
    recovery_seconds: float | None = None
    """Time from the begin of a flash crowd until requests are in time again; infinite if they never are."""
    decisions: tuple[RecordedDecision, ...] = ()


@dataclass
class Comparison:
    """Runs policies on a case and computes once what all runs share."""

    case: ComparedCase
    on_progress: Callable[[float], None] = lambda share: None
    """Called with the progress of a run, 0 to 1."""

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
        """The oracle's replica counts."""
        return self.needs.fleet(self.case.starts.ready_seconds)

    @cached_property
    def mix(self) -> Mix:
        return self.case.mix

    @cached_property
    def requests_per_second(self) -> float:
        """Capacity of one replica by the assumed profile and the published rule of thumb, which users of peers know."""
        engine = replace(self.case.replica_capacity.engine, usable_share=MEAN_VALUE_SHARE)
        return capacity(engine, self.mix, self.case.promise).requests_per_second

    @property
    def batch(self) -> float:
        """Sequences in the batch of a replica at its latency limit, by the same profile."""
        return load_of(self.case.replica_capacity.engine, self.mix, self.requests_per_second).sequences

    @cached_property
    def peer_inputs(self) -> PeerInputs:
        """The configuration of peers, from the assumed profile, not the true one."""
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
        """Replicas that serve at the beginning: the need of the first two minutes, by the assumed profile."""
        min_replicas, max_replicas = self.case.bounds
        first = _requests_before(self.case.trace, INITIAL_LOAD_SECONDS)
        if first == 0:
            return min_replicas
        rate = capacity(self.case.replica_capacity.engine, self.mix, self.case.promise).requests_per_second
        return min(max_replicas, max(min_replicas, ceil(1.2 * first / INITIAL_LOAD_SECONDS / rate)))

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
