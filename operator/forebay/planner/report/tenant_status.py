"""The status of a TenantQuota: what it has of each model and GPU product, and two conditions.

It names no other tenant. Amounts that move with the load are rounded to two significant digits.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from forebay.api.reasons import Reason
from forebay.api.tenant_quota import (
    MOST_PRODUCTS,
    MOST_SHARES,
    Attribution,
    GpuShareStatus,
    ModelShareStatus,
    QuotaMode,
    QuotaStatus,
    ShareAmounts,
)
from forebay.planner.memory import TenantMemory
from forebay.planner.observe.fleet_context import FleetContext
from forebay.planner.report.conditions import READY, ConditionAnswer, conditions
from forebay.planner.report.service_status import TELEMETRY_SECONDS
from forebay.planner.share.tenants.division import ModelPart
from forebay.planner.share.tenants.tenants import GpuPart, TenantOutcome, TenantOutcomes
from forebay.scaling.decision import count
from forebay.world.plan import TenantPlan
from forebay.world.tenants import TenantQuotaView

GUARANTEES_COVERED: Final = "GuaranteesCovered"
_AMOUNTS: Final = ("guaranteed", "asked", "granted", "used", "borrowed", "lent")


def tenant_reports(tenants: TenantOutcomes, fleet: FleetContext) -> tuple[tuple[TenantPlan, ...], TenantMemory]:
    """The plans of all quotas, ordered by name, and what is remembered of them."""
    if not tenants.due:
        return _unchanged(tenants, fleet), tenants.memory
    plans = sorted((_plan(outcome, tenants.memory, fleet.now) for outcome in tenants.quotas), key=lambda p: p.name)
    return tuple(plans), replace(tenants.memory, statuses={plan.uid: plan.status for plan in plans})


def _unchanged(tenants: TenantOutcomes, fleet: FleetContext) -> tuple[TenantPlan, ...]:
    quotas = sorted(fleet.world.tenant_quotas or (), key=lambda quota: quota.name)
    statuses = tenants.memory.statuses
    return tuple(TenantPlan(quota.name, quota.uid, statuses[quota.uid]) for quota in quotas if quota.uid in statuses)


def _plan(outcome: TenantOutcome, memory: TenantMemory, now: float) -> TenantPlan:
    quota = outcome.quota
    before = memory.statuses.get(quota.uid, quota.status)
    try:
        status = _failed(quota, before, outcome.error, now) if outcome.error else _status(outcome, before, now)
    except Exception as error:  # noqa: BLE001 - one quota's fault must not hold the others
        status = _failed(quota, before, error, now)
    return TenantPlan(quota.name, quota.uid, status)


def _failed(quota: TenantQuotaView, before: QuotaStatus, error: Exception, now: float) -> QuotaStatus:
    message = f"Planning failed, so the figures of this quota are not current: {type(error).__name__}: {error}"
    answers = [(READY, ConditionAnswer("False", Reason.PLANNING_FAILED, message))]
    kept = tuple(condition for condition in before.conditions if condition.type != READY)
    answered = conditions(answers, before.conditions, quota.generation, now)
    return before.model_copy(update={"conditions": (*answered, *kept)})


def _status(outcome: TenantOutcome, before: QuotaStatus, now: float) -> QuotaStatus:
    answers = [(READY, ready(outcome)), (GUARANTEES_COVERED, guarantees_covered(outcome))]
    parts = sorted(outcome.parts, key=lambda part: (-(part.used or 0.0), -part.guaranteed, part.model))[:MOST_SHARES]
    gpus = outcome.gpus[:MOST_PRODUCTS]
    return QuotaStatus(
        observed_generation=outcome.quota.generation,
        conditions=conditions(answers, before.conditions, outcome.quota.generation, now),
        attribution=Attribution.NAMESPACE,
        tokens=_token_sums(outcome.parts),
        gpus=ShareAmounts(
            guaranteed=sum(part.guaranteed for part in outcome.gpus),
            asked=sum(part.asked for part in outcome.gpus),
            used=sum(part.used for part in outcome.gpus),
        ),
        models=tuple(_model(part) for part in sorted(parts, key=lambda part: part.model)),
        gpu_products=tuple(_product(part) for part in gpus),
    )


def ready(outcome: TenantOutcome) -> ConditionAnswer:
    """Whether all of the quota counts as written."""
    if outcome.faults:
        message = " ".join(fault.message for fault in outcome.faults)
        return ConditionAnswer("False", outcome.faults[0].reason, f"{message} The rest of the quota counts.")
    spec = outcome.quota.spec
    shadow = spec is not None and spec.mode is QuotaMode.SHADOW
    content = f"{count(len(outcome.parts), 'model')} and {count(len(outcome.gpus), 'GPU product')}"
    by_namespace = "What a service uses counts for the tenant of its namespace, whoever called it."
    if shadow:
        would = f"Shadow: the quota changes nothing. The status shows what it would have of {content}."
        return ConditionAnswer("True", Reason.SHADOW, f"{would} {by_namespace}")
    return ConditionAnswer("True", Reason.QUOTA_ACTIVE, f"All of the quota counts, for {content}. {by_namespace}")


def guarantees_covered(outcome: TenantOutcome) -> ConditionAnswer:
    """Whether what the quota guarantees can be kept, now and at the windows of the next hour."""
    if outcome.shortage is not None:
        return ConditionAnswer("False", outcome.shortage.reason, outcome.shortage.message)
    if outcome.capacity_unknown:
        models = ", ".join(outcome.capacity_unknown[:3])
        return ConditionAnswer(
            "Unknown",
            Reason.CAPACITY_UNKNOWN,
            f"What a replica carries is unknown for {count(len(outcome.capacity_unknown), 'model')} with a guarantee, "
            f"such as {models}.",
        )
    if not (any(part.guaranteed for part in outcome.parts) or any(part.guaranteed for part in outcome.gpus)):
        return ConditionAnswer("True", Reason.NO_GUARANTEES, "The quota guarantees nothing.")
    return ConditionAnswer(
        "True",
        Reason.COVERED,
        "Models and nodes have enough for all guarantees, now and at the peaks of the next hour.",
    )


def should_write_quota(stored: QuotaStatus, wanted: QuotaStatus, last_written_at: float | None, now: float) -> bool:
    """Whether the status is worth a write: conditions and guarantees at once, telemetry and wording every 30 s."""
    if wanted == stored:
        return False
    if _acted_on(wanted) != _acted_on(stored):
        return True
    return last_written_at is None or now - last_written_at >= TELEMETRY_SECONDS


def _acted_on(status: QuotaStatus) -> object:
    return (
        status.observed_generation,
        status.attribution,
        None if status.tokens is None else status.tokens.guaranteed,
        None if status.gpus is None else status.gpus.guaranteed,
        sorted((c.type, c.status, c.reason, c.observed_generation) for c in status.conditions),
    )


def _token_sums(parts: Sequence[ModelPart]) -> ShareAmounts:
    """The sum of each amount over the models for which it is known; absent when it is known for none."""
    return ShareAmounts(
        guaranteed=round(sum(part.guaranteed for part in parts)),
        **{name: _rounded_sum(getattr(part, name) for part in parts) for name in _AMOUNTS[1:]},
    )


def _rounded_sum(amounts: Iterable[float | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return rounded(sum(known)) if known else None


def _model(part: ModelPart) -> ModelShareStatus:
    amounts = {name: rounded(getattr(part, name)) for name in _AMOUNTS[1:]}
    return ModelShareStatus(model=part.model, guaranteed=round(part.guaranteed), **amounts)


def _product(part: GpuPart) -> GpuShareStatus:
    return GpuShareStatus(product=part.product, guaranteed=part.guaranteed, asked=part.asked, used=part.used)


def rounded(amount: float | None) -> int | None:
    """Two significant digits, so that noise does not change the status; None stays None."""
    return None if amount is None else int(float(f"{max(0.0, amount):.2g}"))
