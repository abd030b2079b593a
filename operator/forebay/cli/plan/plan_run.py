"""`forebay plan`: from manifests to tokens per minute, replicas and GPUs, with the arithmetic shown."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size

from forebay.capacity.plan.service_plan import ServiceCapacityPlan, plan_service
from forebay.capacity.plan.traffic_shape import recorded_rates
from forebay.cli.charts import ChartError
from forebay.cli.manifest_input import BadInput, ManifestInput, ServiceManifest, read_input
from forebay.cli.plan.plan_changes import PlanChange, changes
from forebay.cli.plan.plan_chart import draw
from forebay.cli.plan.plan_json import document
from forebay.cli.plan.plan_markdown import comment
from forebay.cli.plan.plan_options import Method, Output, PlanOptionError, PlanOptions, PlanRequest, read_plan_request
from forebay.cli.plan.plan_schedules import Schedules, planned_schedules
from forebay.cli.plan.plan_table import report
from forebay.cli.plan.recorded_usable_share import usable_share
from forebay.simulation.traffic.trace_file import Recording

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2
"""Exit codes."""
LIVE = "LIVE"


def plan(options: PlanOptions) -> int:
    """Print the plan and return the exit code."""
    manifests = read_input(options.files)
    try:
        request = read_plan_request(options, manifests.profiles)
        plans = _plans(manifests.services, request)
        plan_changes = _changes(options, plans, request, manifests)
    except PlanOptionError as error:
        _print_faults([error.fault])
        return BAD_INPUT
    schedules = planned_schedules(plans, time.time())
    _write(options, plans, manifests.bad, plan_changes, schedules)
    for pool in manifests.warm_pools:
        print(
            f"WarmPool {pool.metadata.name} is not planned: it is not a service, and its GPUs are not counted.",
            file=sys.stderr,
        )
    for quota in manifests.tenant_quotas:
        print(
            f"TenantQuota {quota.metadata.name} is not planned: a plan counts a service's traffic, whoever sends it.",
            file=sys.stderr,
        )
    if options.chart is not None and not _draw(plans, options.chart):
        return BAD_INPUT
    return _exit_code(plans, manifests, schedules)


def _exit_code(plans: Sequence[ServiceCapacityPlan], manifests: ManifestInput, schedules: Schedules) -> int:
    enough = [schedule.enough for of_service in schedules.values() for schedule in of_service]
    if manifests.bad or any(plan.unknown for plan in plans) or None in enough:
        return BAD_INPUT
    return DOES_NOT_FIT if any(plan.problems for plan in plans) or False in enough else FITS


def _write(
    options: PlanOptions,
    plans: Sequence[ServiceCapacityPlan],
    bad: Sequence[BadInput],
    plan_changes: Sequence[PlanChange] | None,
    schedules: Schedules,
) -> None:
    """Print the plan on standard output, and what is wrong on standard error."""
    napkin = options.method is Method.NAPKIN
    if options.output is Output.JSON:
        content = document(plans, bad, plan_changes, schedules)
        print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    elif options.output is Output.MARKDOWN:
        print("\n".join(comment(plans, bad, plan_changes, schedules, napkin=napkin)))
    else:
        columns = get_terminal_size().columns if sys.stdout.isatty() else None
        lines = report(plans, plan_changes, schedules, napkin=napkin, details=options.details, columns=columns)
        print("\n".join(lines))
    _print_faults([*bad, *_unknown(plans), *_unreadable(schedules)])


def _unknown(plans: Iterable[ServiceCapacityPlan]) -> Iterable[str]:
    """What manifests lack. It counts as bad input, so it is printed for every output format."""
    for plan in plans:
        if plan.unknown:
            yield from (f"{plan.namespace}/{plan.name}: {problem}" for problem in plan.problems)


def _unreadable(schedules: Schedules) -> Iterable[str]:
    for of_service in schedules.values():
        yield from (
            f"{schedule.namespace}/{schedule.service}: {schedule.name}: {schedule.message}"
            for schedule in of_service
            if schedule.window_floor.fault
        )


def _print_faults(faults: Iterable[BadInput | str]) -> None:
    for fault in faults:
        print(fault, file=sys.stderr)


def _plans(manifests: Iterable[ServiceManifest], request: PlanRequest) -> list[ServiceCapacityPlan]:
    return [_plan(manifest, request) for manifest in manifests]


def _plan(manifest: ServiceManifest, request: PlanRequest) -> ServiceCapacityPlan:
    """Plan a service.

    A service with recorded traffic is planned twice: the first plan gives the engine, on which the recorded lengths are
    played to measure the usable share; the second plan uses that share.
    """
    questions = request.questions
    recording = request.recording_of(manifest.namespace, manifest.name)
    if recording is not None:
        known = replace(questions.context, lengths=recording.lengths)
        questions = replace(questions, context=known, rates=recorded_rates(recording.times))
        first = plan_service(manifest.namespace, manifest.name, manifest.spec, questions)
        share = _measured_share(first, recording)
        if share is not None:
            questions = replace(questions, context=replace(known, usable_share=share))
    return plan_service(manifest.namespace, manifest.name, manifest.spec, questions)


def _measured_share(first: ServiceCapacityPlan, recording: Recording) -> float | None:
    """The usable share of the first plan's engine; None where the simulated engine cannot play the service."""
    sized = first.plan
    if (
        sized is None
        or sized.throughput is None
        or sized.plan_input.mix is None
        or sized.plan_input.speculation is not None
    ):
        return None
    throughput = sized.throughput
    return usable_share(
        throughput.engine, sized.plan_input.mix, sized.plan_input.promise, recording.lengths, throughput.batched_tokens
    )


def _changes(
    options: PlanOptions, plans: Sequence[ServiceCapacityPlan], request: PlanRequest, manifests: ManifestInput
) -> tuple[PlanChange, ...] | None:
    """What the plans change against `--against`; None without that flag."""
    if options.against is None:
        return None
    if options.against.upper() == LIVE:
        keys = {manifest.key for manifest in manifests.services}
        before = [manifest for manifest in _live(options) if manifest.key in keys]
    else:
        earlier = read_input([options.against])
        if earlier.bad:
            raise PlanOptionError("--against", options.against, f"{earlier.bad[0]}")
        before = earlier.services
    return changes(_plans(before, request), plans)


def _live(options: PlanOptions) -> list[ServiceManifest]:
    """The services of the cluster. One whose spec does not parse is left out, since the operator does not act on it."""
    from forebay.cli.cluster_connection import cluster_reader
    from forebay.cli.service_reading import ServiceReading, read_services

    async def read() -> tuple[ServiceReading, ...]:
        async with cluster_reader(options.kubeconfig, options.context) as reader:
            return await read_services(reader.api, None)

    return [
        ServiceManifest("cluster", position, reading.namespace, reading.name, reading.spec)
        for position, reading in enumerate(asyncio.run(read()), start=1)
        if reading.spec is not None
    ]


def _draw(plans: Sequence[ServiceCapacityPlan], target: Path) -> bool:
    """Whether the chart could be written."""
    try:
        drawn = draw(plans, target)
    except ChartError as error:
        _print_faults([str(error)])
        return False
    omitted = len(plans) - drawn
    note = f" ({omitted} more are not in it)" if omitted else ""
    print(f"wrote {target}{note}", file=sys.stderr)
    return True
