"""The cells and lines of a plan that the terminal and the Markdown comment share."""

from collections.abc import Iterator, Sequence

from forebay.capacity.plan.cost import Cost
from forebay.capacity.plan.remedies import milliseconds
from forebay.capacity.plan.service_plan import ServiceCapacityPlan
from forebay.capacity.plan.sizing import CapacityPlan, PlannedFleet, Throughput, count

__all__ = ["UNKNOWN", "arithmetic", "columns", "cost_of", "count", "milliseconds", "row", "state"]

COLUMNS = ("SERVICE", "GPU", "REPLICAS", "GPUS", "TPM", "TPM + HEADROOM", "TTFT p95", "ITL", "KV", "BOUND", "STATE")
NUMBERS = frozenset(("REPLICAS", "GPUS", "TPM", "TPM + HEADROOM", "TTFT p95", "ITL", "KV", "COST/H"))
"""Columns that are aligned to the right."""
LEAST_NEEDED = ("BOUND", "KV", "ITL", "TTFT p95", "TPM", "COST/H")
"""Columns that a narrow terminal leaves out, in this order."""
UNKNOWN = "?"


def columns(priced: bool) -> tuple[str, ...]:
    """The header of the table of services; the cost column only where prices are known."""
    return (*COLUMNS[:-1], "COST/H", COLUMNS[-1]) if priced else COLUMNS


def row(plan: ServiceCapacityPlan, priced: bool) -> tuple[str, ...]:
    """The row of one service; an unknown value is shown as `?`."""
    fleet = plan.plan.fleet if plan.plan else None
    throughput = plan.plan.throughput if plan.plan else None
    demand = plan.demand
    cells = [
        f"{plan.namespace}/{plan.name}",
        f"{plan.plan.plan_input.gpu.name} {plan.plan.replica.sizes}" if plan.plan else UNKNOWN,
        f"{fleet.active}+{fleet.warm}" if fleet else UNKNOWN,
        f"{fleet.gpus:,}" if fleet else UNKNOWN,
        f"{round(demand.tokens_per_minute):,}" if demand else "-",
        f"{round(demand.with_headroom):,}" if demand else "-",
        milliseconds(fleet.expected.first_token_p95) if fleet else UNKNOWN,
        milliseconds(fleet.expected.inter_token_mean) if fleet else UNKNOWN,
        f"{fleet.kv_fraction:.0%}" if fleet else UNKNOWN,
        throughput.capacity.bound.value if throughput else "-",
    ]
    if priced:
        cells.append(f"{plan.cost.per_hour:,.2f}" if plan.cost else UNKNOWN)
    return (*cells, state(plan))


def state(plan: ServiceCapacityPlan) -> str:
    """`fits`, `does not fit`, or `unknown` where the manifest says too little."""
    if plan.unknown:
        return "unknown"
    return "does not fit" if plan.problems else "fits"


def arithmetic(plan: ServiceCapacityPlan) -> Iterator[tuple[str, str]]:
    """The steps of a plan from memory to replicas, with every factor: pairs of heading and text."""
    if plan.plan is not None:
        yield from _memory(plan.plan)
    yield from _demand(plan)
    if plan.plan is not None and plan.plan.throughput is not None:
        yield from _replica(plan.plan, plan.plan.throughput)
        if plan.plan.fleet is not None:
            yield from _fleet(plan.plan, plan.plan.throughput, plan.plan.fleet)
    if plan.cost is not None:
        yield "Cost", cost_of(plan.cost)
    yield from _variants(plan)
    if plan.bases:
        yield "Base", _bases(plan)
    for region in plan.regions:
        yield (
            "Region",
            (
                f"{region.name}: {region.share:.0%} of the traffic, "
                f"{region.largest_share:.0%} when {region.lost} is lost: "
                f"{region.active} active + {region.warm} warm on {count(region.gpus, 'GPU')}"
            ),
        )


def cost_of(cost: Cost) -> str:
    return (
        f"{cost.per_hour:,.2f} {cost.currency} an hour, {cost.per_month:,.0f} a month, "
        f"{cost.per_million_tokens:,.3f} per million tokens"
    )


def _memory(plan: CapacityPlan) -> Iterator[tuple[str, str]]:
    replica = plan.replica
    memory, footprint = replica.memory, replica.footprint
    gpus = replica.sizes.gpus
    where = f"on each of {gpus} GPUs" if gpus > 1 else "on one GPU"
    parts = [f"weights {_gib(memory.weight_bytes_per_rank)}"]
    if memory.adapter_bytes_per_rank:
        parts.append(f"adapters {_gib(memory.adapter_bytes_per_rank)}")
    parts.append(f"overhead {_gib(memory.overhead_bytes)}")
    yield (
        "Memory",
        (
            f"{_gib(memory.card_bytes)} × {footprint.utilization_percent} % = {_gib(memory.usable_bytes)} "
            f"− {' − '.join(parts)} = {_gib(memory.kv_bytes)} for KV {where}"
        ),
    )
    yield (
        "KV cache",
        (
            f"÷ {memory.kv_bytes_per_token_per_rank:,} bytes a token and rank = {memory.kv_tokens:,} tokens a replica; "
            f"{count(replica.max_concurrent_sequences, 'sequence')} at once"
        ),
    )
    weights = -(-memory.weight_bytes // plan.plan_input.gpu.nominal_bytes)
    yield "Weights only", f"{memory.weight_bytes / 1e9:,.1f} GB would take {count(weights, 'card')}, without any KV"


def _demand(plan: ServiceCapacityPlan) -> Iterator[tuple[str, str]]:
    demand = plan.demand
    if demand is None:
        return
    yield (
        "Demand",
        (
            f"{demand.requests_per_month:,} requests ÷ 2,592,000 s = {float(demand.average):.4g}/s "
            f"× {float(demand.peak_factor):g} = {float(demand.peak):.4g}/s at the peak"
        ),
    )
    yield (
        "Tokens",
        (
            f"× 60 × {float(demand.tokens_per_request):,g} tokens = {round(demand.tokens_per_minute):,} TPM "
            f"× {float(demand.headroom):g} headroom = {round(demand.with_headroom):,} TPM"
        ),
    )


def _replica(plan: CapacityPlan, throughput: Throughput) -> Iterator[tuple[str, str]]:
    capacity, engine = throughput.capacity, throughput.engine
    profile = engine.profile
    yield (
        "Work",
        (
            f"a request is s = {capacity.work_seconds * 1000:.2f} ms of GPU (a step "
            f"{profile.step_seconds * 1000:.3g} ms, {profile.prompt_token_seconds * 1e6:.3g} µs a prompt token, "
            f"{profile.sequence_seconds * 1e6:.3g} µs a sequence, {profile.kv_token_seconds * 1e9:.3g} ns a KV token)"
        ),
    )
    memory = f"{capacity.memory_share:.3f} by {capacity.most_sequences:.0f} sequences"
    yield (
        "Usable",
        (
            f"u = min({capacity.latency_share:.3f} by ITL {milliseconds(capacity.inter_token_limit)}, {memory}) = "
            f"{capacity.usable:.3f}, bound by {capacity.bound}"
        ),
    )
    yield (
        "Replica",
        (
            f"u ÷ s = {throughput.requests_per_second:.4g} requests/s = {round(throughput.tokens_per_minute):,} TPM; "
            f"at most {throughput.batched_tokens:,} tokens a step"
        ),
    )


def _fleet(plan: CapacityPlan, throughput: Throughput, fleet: PlannedFleet) -> Iterator[tuple[str, str]]:
    demand, promise = plan.plan_input.demand, plan.plan_input.promise
    assert demand is not None
    yield (
        "Replicas",
        (
            f"{float(demand.peak):.4g}/s × {float(demand.headroom):g} ÷ {throughput.requests_per_second:.4g}/s = "
            f"{fleet.exact:.3f} → {fleet.active} active + {fleet.warm} warm on {count(fleet.gpus, 'GPU')} "
            f"({plan.plan_input.gpu.product})"
        ),
    )
    expected = fleet.expected
    yield (
        "At the peak",
        f"TTFT p50 {milliseconds(expected.first_token_p50)}, p95 {milliseconds(expected.first_token_p95)} "
        f"(promised {milliseconds(promise.time_to_first_token)}); ITL {milliseconds(expected.inter_token_mean)} "
        f"({milliseconds(promise.inter_token_latency)}); end to end p95 {expected.end_to_end_p95:.3g} s"
        + (f" ({promise.end_to_end:g} s)" if promise.end_to_end else "")
        + f"; KV cache {fleet.kv_fraction:.0%}",
    )
    yield "Gateway", f"{count(fleet.concurrent_streams, 'stream')} open at once"


def _variants(plan: ServiceCapacityPlan) -> Iterator[tuple[str, str]]:
    for variant in plan.variants:
        fleet = variant.plan.fleet if variant.plan else None
        size = f"{variant.plan.plan_input.gpu.product} {variant.plan.replica.sizes}" if variant.plan else "unknown"
        text = size if size.startswith(variant.name) else f"{variant.name}: {size}"
        if fleet is not None:
            text += f", {count(fleet.total, 'replica')} on {count(fleet.gpus, 'GPU')}"
        if variant.cost is not None:
            text += f", {variant.cost.per_hour:,.2f} {variant.cost.currency} an hour"
        if not variant.fits:
            text += " (does not fit)"
        if variant.name == plan.cheapest:
            text += " (the cheapest that fits)"
        yield "Variant", text


def _bases(plan: ServiceCapacityPlan) -> str:
    shown = [base for base in plan.bases if base.replicas]
    step = max(1, -(-len(shown) // 6))
    chosen = [*shown[step - 1 :: step]]
    if shown and chosen[-1] is not shown[-1]:
        chosen.append(shown[-1])
    served = ", ".join(f"{base.replicas}: {base.share_of_requests:.0%}" for base in chosen)
    return f"share of the month's requests by number of reserved replicas: {served}"


def _gib(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.2f} GiB"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> Iterator[str]:
    """The lines of a table with each column as wide as its widest cell; columns are left out to keep to `width`."""
    table = [tuple(header), *(tuple(row) for row in rows)]
    for name in LEAST_NEEDED:
        if width is None or sum(_widths(table)) + len(_GAP) * (len(table[0]) - 1) <= width:
            break
        if name in table[0]:
            index = table[0].index(name)
            table = [cells[:index] + cells[index + 1 :] for cells in table]
    widths = _widths(table)
    for cells in table:
        padded = [
            cell.rjust(size) if name in NUMBERS else cell.ljust(size)
            for cell, size, name in zip(cells, widths, table[0], strict=True)
        ]
        yield _GAP.join(padded).rstrip()


_GAP = "  "


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
