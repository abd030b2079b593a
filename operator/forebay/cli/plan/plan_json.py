"""Writes the plan as JSON.

Keys and units are a contract with scripts: seconds, bytes, tokens, and shares from 0 to 1.
"""

from collections.abc import Sequence
from typing import Any

from forebay.capacity.plan.cost import Cost
from forebay.capacity.plan.napkin import Napkin
from forebay.capacity.plan.plan_problem import PlanProblem
from forebay.capacity.plan.service_plan import ServiceCapacityPlan, VariantPlan, totals
from forebay.capacity.plan.sizing import CapacityPlan, Throughput
from forebay.cli.manifest_input import BadInput
from forebay.cli.plan import plan_schedules
from forebay.cli.plan.plan_changes import PlanChange
from forebay.cli.plan.plan_schedules import PlannedSchedule, Schedules

Json = dict[str, Any]


def document(
    plans: Sequence[ServiceCapacityPlan],
    bad: Sequence[BadInput],
    changes: Sequence[PlanChange] | None,
    schedules: Schedules,
) -> Json:
    """The whole document; `against` only where plans were compared."""
    content: Json = {
        "services": [service(plan, schedules.get((plan.namespace, plan.name), ())) for plan in plans],
        "totals": _totals(plans),
        "badInput": [
            {"file": fault.file, "document": fault.document, "field": fault.field, "reason": fault.reason}
            for fault in bad
        ],
    }
    if changes is not None:
        content["against"] = [_change(change) for change in changes]
    return content


def service(plan: ServiceCapacityPlan, schedules: Sequence[PlannedSchedule]) -> Json:
    """One service; a value that could not be computed is null."""
    return {
        "namespace": plan.namespace,
        "name": plan.name,
        "fits": not plan.problems,
        **_memory(plan.plan),
        **_demand(plan),
        **_throughput(plan.plan.throughput if plan.plan else None),
        **_fleet(plan.plan),
        "cost": _cost(plan.cost),
        "baseAndSpill": [
            {
                "replicas": base.replicas,
                "shareOfRequests": base.share_of_requests,
                "shareOfTime": base.share_of_time,
            }
            for base in plan.bases
        ],
        "regions": [
            {
                "name": region.name,
                "share": region.share,
                "largestShare": region.largest_share,
                "lost": region.lost,
                "replicas": {"active": region.active, "warm": region.warm, "total": region.active + region.warm},
                "gpus": region.gpus,
            }
            for region in plan.regions
        ],
        "variants": [_variant(variant) for variant in plan.variants],
        "cheapest": plan.cheapest,
        "schedules": [plan_schedules.document(schedule) for schedule in schedules],
        "assumptions": list(plan.plan.assumptions) if plan.plan else [],
        "notes": list(plan.plan.notes) if plan.plan else [],
        "napkin": _napkin(plan.napkin),
        "differences": list(plan.differences),
        "problems": [_problem(problem) for problem in plan.problems],
    }


def _memory(plan: CapacityPlan | None) -> Json:
    if plan is None:
        keys = (
            "weightsBytes",
            "weightsBytesPerRank",
            "kvBytesPerToken",
            "kvBytesPerTokenPerRank",
            "kvTokensPerReplica",
            "maxConcurrentSequences",
            "parallelSizes",
        )
        return dict.fromkeys(keys)
    memory, sizes = plan.replica.memory, plan.replica.sizes
    return {
        "weightsBytes": memory.weight_bytes,
        "weightsBytesPerRank": memory.weight_bytes_per_rank,
        "kvBytesPerToken": memory.kv_bytes_per_token,
        "kvBytesPerTokenPerRank": memory.kv_bytes_per_token_per_rank,
        "kvTokensPerReplica": memory.kv_tokens,
        "maxConcurrentSequences": plan.replica.max_concurrent_sequences,
        "parallelSizes": {"tensor": sizes.tensor, "pipeline": sizes.pipeline, "data": sizes.data},
    }


def _demand(plan: ServiceCapacityPlan) -> Json:
    demand = plan.demand
    return {
        "averageRequestsPerSecond": float(demand.average) if demand else None,
        "peakRequestsPerSecond": float(demand.peak) if demand else None,
        "tokensPerMinute": round(demand.tokens_per_minute) if demand else None,
        "tokensPerMinuteWithHeadroom": round(demand.with_headroom) if demand else None,
    }


def _throughput(throughput: Throughput | None) -> Json:
    if throughput is None:
        keys = (
            "tokensPerMinutePerReplica",
            "requestsPerSecondPerReplica",
            "workSecondsPerRequest",
            "usableFraction",
            "bound",
            "maxNumBatchedTokens",
            "basis",
            "profile",
        )
        return dict.fromkeys(keys)
    profile, chosen, capacity = throughput.engine.profile, throughput.chosen, throughput.capacity
    return {
        "tokensPerMinutePerReplica": round(throughput.tokens_per_minute),
        "requestsPerSecondPerReplica": throughput.requests_per_second,
        "workSecondsPerRequest": capacity.work_seconds,
        "usableFraction": capacity.usable,
        "bound": capacity.bound.value,
        "maxNumBatchedTokens": throughput.batched_tokens,
        "basis": chosen.basis.value,
        "profile": {
            "name": chosen.name,
            "errorPercent": chosen.error_percent,
            "stepSeconds": profile.step_seconds,
            "promptTokenSeconds": profile.prompt_token_seconds,
            "sequenceSeconds": profile.sequence_seconds,
            "kvTokenSeconds": profile.kv_token_seconds,
        },
    }


def _fleet(plan: CapacityPlan | None) -> Json:
    fleet = plan.fleet if plan else None
    if plan is None or fleet is None:
        product = plan.plan_input.gpu.product if plan else None
        return {
            "replicas": None,
            "gpus": {"product": product, "count": None},
            "latency": None,
            "kvFractionAtPeak": None,
            "concurrentStreams": None,
        }
    expected = fleet.expected
    return {
        "replicas": {"active": fleet.active, "warm": fleet.warm, "total": fleet.total, "exact": fleet.exact},
        "gpus": {"product": plan.plan_input.gpu.product, "count": fleet.gpus},
        "latency": {
            "timeToFirstToken": {"p50": expected.first_token_p50, "p95": expected.first_token_p95},
            "interTokenLatency": {"mean": expected.inter_token_mean},
            "endToEnd": {"p95": expected.end_to_end_p95},
        },
        "kvFractionAtPeak": fleet.kv_fraction,
        "concurrentStreams": fleet.concurrent_streams,
    }


def _cost(cost: Cost | None) -> Json | None:
    if cost is None:
        return None
    return {
        "currency": cost.currency,
        "perHour": cost.per_hour,
        "perMonth": cost.per_month,
        "perMillionTokens": cost.per_million_tokens,
    }


def _variant(variant: VariantPlan) -> Json:
    plan = variant.plan
    fleet = plan.fleet if plan else None
    return {
        "name": variant.name,
        "fits": variant.fits,
        "product": plan.plan_input.gpu.product if plan else None,
        "parallelSizes": str(plan.replica.sizes) if plan else None,
        "replicas": fleet.total if fleet else None,
        "gpus": fleet.gpus if fleet else None,
        "cost": _cost(variant.cost),
        "problems": [_problem(problem) for problem in variant.problems],
    }


def _napkin(napkin: Napkin | None) -> Json | None:
    if napkin is None:
        return None
    return {
        "stepSeconds": napkin.step_seconds,
        "tokensPerSecond": napkin.tokens_per_second,
        "requestsPerSecond": napkin.requests_per_second,
        "active": napkin.active,
        "warm": napkin.warm,
        "scaling": {
            "queueDepth": napkin.scaling.queue_depth,
            "scaleUpCooldownSeconds": napkin.scaling.scale_up_cooldown_seconds,
            "scaleDownCooldownSeconds": napkin.scaling.scale_down_cooldown_seconds,
            "minReplicas": napkin.scaling.min_replicas,
            "maxReplicas": napkin.scaling.max_replicas,
        },
    }


def _problem(problem: PlanProblem) -> Json:
    return {
        "field": problem.field,
        "value": problem.value,
        "reason": problem.reason,
        "options": list(problem.remedies),
    }


def _totals(plans: Sequence[ServiceCapacityPlan]) -> Json:
    total = totals(plans)
    return {
        "tokensPerMinute": round(total.tokens_per_minute),
        "tokensPerMinuteWithHeadroom": round(total.with_headroom),
        "tokensPerMinuteRounded": total.asked_for,
        "gpus": total.gpus,
        "cost": _cost(total.cost),
    }


def _change(change: PlanChange) -> Json:
    return {
        "namespace": change.namespace,
        "name": change.name,
        "state": change.state,
        "gpus": {"before": change.before.gpus, "after": change.after.gpus},
        "tokensPerMinute": {
            "before": round(change.before.tokens_per_minute),
            "after": round(change.after.tokens_per_minute),
        },
        "costPerHour": {"before": change.before.cost_per_hour, "after": change.after.cost_per_hour},
    }
