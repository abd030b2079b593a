"""Draws the plan: demand against capacity over the day, and what fills the memory of a GPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forebay.capacity.plan.service_plan import ServiceCapacityPlan
from forebay.capacity.plan.sizing import CapacityPlan, PlannedFleet, Throughput, count
from forebay.cli.charts import ChartError, new_figure

MOST_SERVICES = 8
"""The most services in one picture."""
_GIB = 2**30
_COLOURS = {
    "weights": "#4c72b0",
    "adapters": "#8172b3",
    "overhead": "#b0b0b0",
    "KV cache": "#55a868",
    "free": "#e8e8e8",
}


def draw(plans: Sequence[ServiceCapacityPlan], target: Path) -> int:
    """Write the picture and return how many services it shows. Raises ChartError."""
    shown = [plan for plan in plans if plan.plan is not None][:MOST_SERVICES]
    if not shown:
        raise ChartError("--chart has nothing to draw: no service could be planned")
    figure = new_figure(11, 1.2 + 2.6 * len(shown))
    axes = figure.subplots(len(shown), 2, squeeze=False, width_ratios=(3, 1))
    for plan, (demand, memory) in zip(shown, axes, strict=True):
        assert plan.plan is not None
        _demand(demand, plan, plan.plan)
        _memory(memory, plan.plan)
    figure.suptitle("Capacity plan: demand against capacity, and the memory of one GPU", fontsize=11)
    try:
        figure.savefig(target, dpi=120)
    except (OSError, ValueError) as error:
        raise ChartError(f"{target} cannot be written: {error}") from error
    return len(shown)


def _demand(axis: Any, service: ServiceCapacityPlan, plan: CapacityPlan) -> None:
    axis.set_title(f"{service.namespace}/{service.name}", loc="left", fontsize=10)
    if plan.fleet is None or plan.throughput is None or plan.plan_input.demand is None:
        axis.text(0.5, 0.5, _why_empty(service), ha="center", va="center", transform=axis.transAxes, fontsize=9)
        axis.set_axis_off()
        return
    per_request = 60 * float(plan.plan_input.demand.tokens_per_request) / 1e6
    average = float(plan.plan_input.demand.average) * per_request
    hours = [24 * slot / len(service.rates) for slot in range(len(service.rates))]
    requested = [average * rate for rate in service.rates]
    if len(requested) == 1:
        hours, requested = [0, 24], requested * 2
    axis.fill_between(hours, requested, color="#4c72b0", alpha=0.35, linewidth=0, label="demand")
    axis.plot(hours, requested, color="#4c72b0", linewidth=1)
    _levels(axis, plan.fleet, plan.throughput)
    needed = float(plan.plan_input.demand.with_headroom) / 1e6
    axis.axhline(needed, color="#4c72b0", linewidth=1, linestyle="--", label="peak and headroom")
    axis.set_xlim(0, 24)
    axis.set_ylim(0, 1.12 * axis.get_ylim()[1])
    axis.set_xticks(range(0, 25, 4))
    axis.set_xlabel("hour of the day", fontsize=8)
    axis.set_ylabel("million tokens a minute", fontsize=8)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7, loc="upper left", framealpha=0.9)


def _levels(axis: Any, fleet: PlannedFleet, throughput: Throughput) -> None:
    """Lines for the capacity of one replica, of the active replicas, and of all replicas."""
    per_replica = throughput.tokens_per_minute / 1e6
    active = count(fleet.active, "active replica")
    axis.axhline(fleet.active * per_replica, color="#c44e52", linewidth=1.5, label=active)
    if fleet.warm:
        axis.axhline(
            fleet.total * per_replica, color="#c44e52", linewidth=1, linestyle=":", label=f"and {fleet.warm} warm"
        )
    if fleet.active > 1:
        axis.axhline(per_replica, color="#937860", linewidth=0.8, linestyle=":", label="one replica")


def _memory(axis: Any, plan: CapacityPlan) -> None:
    memory = plan.replica.memory
    kv_cache = max(0, memory.kv_bytes)
    parts = {
        "weights": memory.weight_bytes_per_rank,
        "adapters": memory.adapter_bytes_per_rank,
        "overhead": memory.overhead_bytes,
        "KV cache": kv_cache,
    }
    parts["free"] = max(0, memory.card_bytes - sum(parts.values()))
    bottom = 0.0
    for name, size in parts.items():
        if size:
            height = size / _GIB
            axis.bar(0, height, bottom=bottom, color=_COLOURS[name], width=0.6, label=f"{name} {height:.1f}")
            bottom += height
    axis.axhline(memory.card_bytes / _GIB, color="#333333", linewidth=1)
    axis.set_title(f"{plan.plan_input.gpu.name}, {plan.replica.sizes}", fontsize=9)
    axis.set_ylabel("GiB", fontsize=8)
    axis.set_xlim(-0.5, 1.8)
    axis.set_xticks([])
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7, loc="center right", reverse=True, frameon=False)


def _why_empty(service: ServiceCapacityPlan) -> str:
    if service.problems:
        return "does not fit; see its problems"
    return "declares no traffic"
