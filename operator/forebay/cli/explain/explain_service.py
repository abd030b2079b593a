"""`forebay explain SERVICE`: describes a service's replicas, decision and conditions from its status."""

import asyncio
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from forebay.api.inference_service import Condition, InferenceServiceStatus, ScheduleStatus
from forebay.api.instants import unix_seconds
from forebay.api.learned_status import LEARNED_VERSION, LearnedStatus, StartTimes
from forebay.api.status import ScaledToZeroStatus, VariantState, VariantStatus
from forebay.cli.cluster_connection import cluster_reader
from forebay.cli.explain.explain_decision import age, decision_lines, past_lines, time_of, wrapped
from forebay.cli.service_reading import ServiceReading, read_service
from forebay.scaling.learning.lead_time import ENOUGH_STARTS


def explain(
    service: str, namespace: str | None, kubeconfig: Path | None, context: str | None, at: str | None = None
) -> int:
    """Print the explanation, of now or of the time `at`, and return the exit code. Raises TimeFormatError."""
    earlier = None if at is None else time_of(at, time.time())

    async def read() -> tuple[ServiceReading, float]:
        async with cluster_reader(kubeconfig, context) as reader:
            reading = await read_service(reader.api, namespace or await reader.namespace(), service)
            return reading, reader.clock.now()

    reading, now = asyncio.run(read())
    print("\n".join(explanation(reading, now) if earlier is None else explanation_at(reading, earlier, now)))
    return 0


def explanation(reading: ServiceReading, now: float) -> Iterator[str]:
    """The lines of the explanation; `now` in unix seconds."""
    source = f"  {reading.spec.model.source}" if reading.spec else ""
    yield f"{reading.namespace}/{reading.name}{source}"
    status = reading.status
    if status is None:
        yield "No operator has written a status yet. Is one running, and does it watch this namespace?"
        return
    if status.observed_generation < reading.generation:
        yield (
            f"The operator has not read the newest spec (generation {reading.generation}) yet; "
            f"the rest describes generation {status.observed_generation}."
        )
    yield _replicas(reading, status)
    if status.variants:
        yield "Variants, in order of preference (base is the service's own engine and GPU):"
    for variant in status.variants:
        yield from wrapped(_variant(variant), "  ")
    if status.scaled_to_zero is not None:
        yield from _at_zero(reading, status.scaled_to_zero, now)
    else:
        yield _load(status)
    yield ""
    mode = reading.spec.scaling.mode.value if reading.spec else "Auto"
    yield from decision_lines(status, mode, now)
    if status.learned is not None and status.learned.version == LEARNED_VERSION:
        yield ""
        yield "Learned"
        yield from _learned(status.learned)
    if status.schedules:
        yield ""
        yield "Schedules"
    for schedule in status.schedules:
        yield from _schedule(schedule)
    if status.conditions:
        yield ""
        yield "Conditions"
    for condition in status.conditions:
        yield from _condition(condition, now)


def explanation_at(reading: ServiceReading, at: float, now: float) -> Iterator[str]:
    """The decision that was in force at an earlier time, from those that the status keeps."""
    yield f"{reading.namespace}/{reading.name}"
    yield from past_lines(reading.status.decisions if reading.status else (), at, now)


def _replicas(reading: ServiceReading, status: InferenceServiceStatus) -> str:
    counts = status.replicas
    parts = [f"{_count(counts.desired, 'replica')} wanted", f"{counts.ready} ready"]
    parts += [
        f"{number} {word}" for number, word in ((counts.loading, "loading"), (counts.draining, "draining")) if number
    ]
    inputs = status.decision.inputs if status.decision else {}
    parts += [f"{inputs[state]} {state}" for state in ("stuck", "stalled") if state in inputs]
    line = ", ".join(parts)
    if reading.spec is not None:
        scaling = reading.spec.scaling
        line += f"; bounds {scaling.min_replicas} to {scaling.max_replicas}, mode {scaling.mode.value}"
    if counts.warm:
        line += f"; {counts.warm} of them warm, beyond what the load needs"
    return line + "."


_STATE_TEXTS: Final = {
    VariantState.NEXT: "used for the next replica",
    VariantState.STANDBY: "used when the variants before it are unavailable",
}


def _variant(variant: VariantStatus) -> str:
    moving = ((variant.loading, "loading"), (variant.draining, "draining"))
    parts = [f"{variant.ready} ready", *(f"{number} {word}" for number, word in moving if number)]
    use = _STATE_TEXTS.get(variant.state) or f"unavailable: {variant.message}"
    capacity = "" if variant.carries_percent == 100 else f", each carries {variant.carries_percent} % of a base replica"
    return f"{variant.name}: {', '.join(parts)}{capacity}; {use}"


def _at_zero(reading: ServiceReading, zero: ScaledToZeroStatus, now: float) -> Iterator[str]:
    since = unix_seconds(zero.since)
    ago = "" if since is None else f" ({age(now - since)} ago)"
    yield f"At zero since {zero.since}{ago}: no request arrived for scaleToZeroAfter."
    yield f"`forebay wake {reading.name} -n {reading.namespace}` starts a replica, and so does a higher minReplicas."


def _load(status: InferenceServiceStatus) -> str:
    load = status.load
    if load.queue is None and load.kv_percent is None and status.replicas.ready == 0:
        return "No replica is known to serve, so there is no load to show."
    if load.queue is None and load.kv_percent is None:
        return "Load unknown: no engine reports usable metrics, so nothing is scaled down."
    queue = "queue unknown" if load.queue is None else f"{_count(load.queue, 'request')} waiting"
    kv_cache = "KV cache unknown" if load.kv_percent is None else f"KV cache {load.kv_percent} % full"
    return f"{queue}, {kv_cache}."


def _schedule(schedule: ScheduleStatus) -> Iterator[str]:
    yield f"  {schedule.name:<14} {schedule.state.value}"
    yield from wrapped(schedule.message, " " * 4)
    if schedule.floor_released_at and schedule.drains_until:
        released = (
            f"The last window ended at {schedule.floor_released_at}; the replicas that it added are drained by "
            f"{schedule.drains_until} at the latest, if the load allows."
        )
        yield from wrapped(released, " " * 4)


def _learned(learned: LearnedStatus) -> Iterator[str]:
    lead, growth = learned.lead_time, learned.growth
    if lead is not None:
        yield _starts("on a placeholder's node", lead.placeholder_node)
        yield _starts("on a ready node", lead.ready_node)
        yield _starts("on a new node", lead.new_node)
    if growth is not None and growth.days:
        comparisons = sum(sum(day.steps) for day in growth.days)
        yield (
            f"  growth: up to {growth.p95_percent} % within the lead time in 95 of 100 cases "
            f"({_count(comparisons, 'comparison')} on {_count(len(growth.days), 'day')})"
        )
    lengths = learned.lengths
    if lengths is not None and lengths.requests:
        yield (
            f"  requests: {lengths.prompt_tokens} prompt tokens ({lengths.computed_percent} % of them computed) and "
            f"{lengths.output_tokens} answer tokens on average"
        )


def _starts(place: str, starts: StartTimes) -> str:
    if not starts.seconds:
        return f"  start {place}: none measured, {starts.p95_seconds} s assumed"
    if len(starts.seconds) < ENOUGH_STARTS:
        few = f"{_count(len(starts.seconds), 'start')} measured, too few to learn from"
        return f"  start {place}: {few}; {starts.p95_seconds} s assumed"
    return (
        f"  start {place}: 95 of 100 within {starts.p95_seconds} s, half within {starts.p50_seconds} s "
        f"({_count(len(starts.seconds), 'start')})"
    )


def _condition(condition: Condition, now: float) -> Iterator[str]:
    since = age(now - datetime.fromisoformat(condition.last_transition_time).timestamp())
    yield f"  {condition.type:<14} {condition.status:<8} {condition.reason} (for {since})"
    yield from wrapped(condition.message, " " * 4)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
