"""Planned sizes: what the capacity plan gives a service, sizes and arguments for its pods and values for its status.

The plan uses only the spec, never the nodes of the cluster: the same spec must resolve to the same pods everywhere and
at any time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.reasons import Reason
from forebay.api.status import MOST_ASSUMPTIONS, MOST_REPLICAS, CapacityStatus, PlannedReplicas, PlanStatus
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.capacity.plan.plan_input import PlanContext, read_plan_input
from forebay.capacity.plan.plan_problem import PlanProblem as Fault
from forebay.capacity.plan.plan_problem import ProblemKind, UnplannableError
from forebay.capacity.plan.sizing import CapacityPlan, engine_of, size
from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.arrivals import RequestLengths
from forebay.workloads.spec.engine_arguments import flag_name
from forebay.workloads.spec.engine_versions import Defaults, resolve_engine
from forebay.world.world import SpecProblem

WHOLE_PROMPTS: Final = "--no-enable-chunked-prefill"
"""Without chunked prefill a step must hold the longest prompt, so Forebay does not set the size of a step."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The result of the capacity plan for a spec; empty where the spec is not specific enough."""

    tensor_parallel_size: int | None = None
    """The smallest size that fits, where the spec leaves it open."""
    pipeline_parallel_size: int | None = None
    max_num_batched_tokens: int | None = None
    misfits: tuple[SpecProblem, ...] = ()
    """Reasons why an engine of this spec cannot start."""
    warnings: tuple[SpecProblem, ...] = ()
    """Problems that do not keep the engine from starting."""
    plan: PlanStatus | None = None
    replica: CapacityStatus | None = None
    """Capacity of one replica."""
    replica_capacity: ReplicaCapacity | None = None
    """Model of one replica for scaling, with or without declared traffic; None where no engine could start."""


def sizing_of(
    spec: InferenceServiceSpec, defaults: Defaults | None = None, profiles: Iterable[GivenProfile] = ()
) -> Sizing:
    """The sizing of a spec. It never raises for a valid spec."""
    defaults = defaults or Defaults()
    known = PlanContext(
        profiles=tuple(profiles),
        utilization_percent=defaults.gpu_memory_utilization_percent,
        engine_version=resolve_engine(spec.engine, defaults).version,
    )
    try:
        plan = size(read_plan_input(spec, known), known)
    except UnplannableError as error:
        return _unsized(spec, error.problems)
    cannot_start = [fault for fault in plan.problems if fault.field.startswith(_ENGINE_FIELDS)]
    fits = not cannot_start
    return Sizing(
        tensor_parallel_size=plan.replica.sizes.tensor if fits else None,
        pipeline_parallel_size=plan.replica.sizes.pipeline if fits else None,
        max_num_batched_tokens=_batched_tokens(spec, plan) if fits else None,
        misfits=tuple(SpecProblem(Reason.DOES_NOT_FIT, str(fault)) for fault in cannot_start),
        warnings=tuple(_warning(fault) for fault in plan.problems if fault not in cannot_start),
        plan=_plan_status(plan),
        replica=_replica_status(plan),
        replica_capacity=_replica_capacity(plan, known) if fits else None,
    )


_ENGINE_FIELDS: Final = ("spec.model.", "spec.engine.")
"""Prefixes of fields whose faults keep an engine from starting. Faults of slo, traffic and bounds do not."""


def _unsized(spec: InferenceServiceSpec, faults: Sequence[Fault]) -> Sizing:
    """Missing values are reported only where the spec asks for a plan by `traffic`: most services run without one."""
    misfits = tuple(
        SpecProblem(Reason.DOES_NOT_FIT, str(fault)) for fault in faults if fault.kind is ProblemKind.MISFIT
    )
    if misfits or spec.traffic is None:
        return Sizing(misfits=misfits)
    return Sizing(warnings=tuple(SpecProblem(Reason.NOT_SIZED, f"Not sized: {fault}") for fault in faults))


def _warning(fault: Fault) -> SpecProblem:
    reason = Reason.BOUNDS_TOO_LOW if fault.field.startswith("spec.scaling.") else Reason.PROMISE_AT_RISK
    return SpecProblem(reason, str(fault))


def _batched_tokens(spec: InferenceServiceSpec, plan: CapacityPlan) -> int | None:
    """Tokens per step; None without a traffic plan, or where the user disables chunked prefill."""
    given = {flag_name(argument) for argument in spec.engine.extra_args}
    if plan.fleet is None or plan.throughput is None or WHOLE_PROMPTS in given:
        return None
    return plan.throughput.batched_tokens


def _plan_status(plan: CapacityPlan) -> PlanStatus:
    replica, fleet, demand = plan.replica, plan.fleet, plan.plan_input.demand
    throughput = plan.throughput
    replicas = None
    if fleet:
        replicas = PlannedReplicas(active=min(fleet.active, MOST_REPLICAS), warm=min(fleet.warm, MOST_REPLICAS))
    return PlanStatus(
        product=plan.plan_input.gpu.product,
        tensor_parallel_size=replica.sizes.tensor,
        pipeline_parallel_size=replica.sizes.pipeline,
        data_parallel_size=replica.sizes.data,
        kv_tokens_per_replica=replica.memory.kv_tokens,
        max_concurrent_sequences=replica.max_concurrent_sequences,
        replicas=replicas,
        gpus=fleet.gpus if fleet else None,
        tokens_per_minute=round(demand.tokens_per_minute) if demand else None,
        tokens_per_minute_with_headroom=round(demand.with_headroom) if demand else None,
        bound=throughput.capacity.bound.value if throughput else None,
        time_to_first_token_milliseconds=round(fleet.expected.first_token_p95 * 1000) if fleet else None,
        inter_token_milliseconds=round(fleet.expected.inter_token_mean * 1000) if fleet else None,
        assumptions=(*plan.notes, *plan.assumptions)[:MOST_ASSUMPTIONS],
    )


def _replica_status(plan: CapacityPlan) -> CapacityStatus | None:
    if plan.throughput is None:
        return None
    tokens = round(plan.throughput.tokens_per_minute)
    return CapacityStatus(tokens_per_minute=tokens, per_replica=tokens, basis=plan.throughput.chosen.basis.value)


def _replica_capacity(plan: CapacityPlan, known: PlanContext) -> ReplicaCapacity:
    plan_input = plan.plan_input
    chosen, engine = engine_of(plan_input, plan.replica, known)
    mix = plan_input.mix
    return ReplicaCapacity(
        engine=engine,
        engines=plan.replica.sizes.data,
        promise=plan_input.promise,
        basis=chosen.basis,
        architecture=plan_input.architecture,
        declared=None if mix is None else RequestLengths(mix.prompt_tokens, mix.output_tokens),
    )
