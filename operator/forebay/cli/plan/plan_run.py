"""`forebay plan`: from manifests to tokens per minute, replicas and GPUs, with the arithmetic shown."""

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from shutil import get_terminal_size

import yaml

from forebay.capacity.model.checkpoint_config import CheckpointConfig, ConfigError, read_config
from forebay.capacity.plan.cost import PriceError, Prices, read_prices
from forebay.capacity.plan.plan_input import PlanContext
from forebay.capacity.plan.regions import Region, RegionError, read_regions
from forebay.capacity.plan.service_plan import PlanSettings, ServiceCapacityPlan, plan_service
from forebay.capacity.plan.traffic_shape import recorded_rates
from forebay.cli.manifest_input import BadInput, Input, Manifest, read_input, read_yaml, said
from forebay.cli.plan.plan_changes import PlanChange, changes
from forebay.cli.plan.plan_json import document
from forebay.cli.plan.plan_markdown import comment
from forebay.cli.plan.plan_schedules import Schedules, planned_schedules
from forebay.cli.plan.plan_table import report
from forebay.cli.plan.recorded_usable_share import usable_share
from forebay.simulation.traffic.trace_file import Recording, TraceError, read_trace

FITS, DOES_NOT_FIT, BAD_INPUT = 0, 1, 2
"""Exit codes."""
LIVE = "LIVE"


class Output(StrEnum):
    """How the plan is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Method(StrEnum):
    """`profile` is the plan; `napkin` shows the first guess beside it and why they differ."""

    PROFILE = "profile"
    NAPKIN = "napkin"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The command line, unread."""

    files: tuple[str, ...]
    output: Output = Output.TABLE
    method: Method = Method.PROFILE
    details: bool | None = None
    against: str | None = None
    gpu: str | None = None
    configs: tuple[str, ...] = ()
    prices: Path | None = None
    regions: str | None = None
    traces: tuple[str, ...] = ()
    chart: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None


class PlanOptionError(Exception):
    """A flag, or the file it names, cannot be read."""

    def __init__(self, flag: str, value: object, reason: str) -> None:
        super().__init__(f"{flag} {value}: {reason}")
        self.fault = BadInput(str(value), None, flag, reason)


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line, read."""

    questions: PlanSettings
    recordings: dict[str, Recording]
    """By namespace/name or name of a service; the empty name stands for all others."""


def plan(options: PlanOptions) -> int:
    """Print the plan; the exit code."""
    found = read_input(options.files)
    try:
        asked = _asked(options, found)
        plans = _planned(found.manifests, asked)
        compared = _compared(options, plans, asked, found)
    except PlanOptionError as error:
        _complain([error.fault])
        return BAD_INPUT
    schedules = planned_schedules(plans, time.time())
    _write(options, plans, found.bad, compared, schedules)
    for pool in found.warm_pools:
        print(
            f"WarmPool {pool.metadata.name} is left out: it is no service, and its GPUs are not counted.",
            file=sys.stderr,
        )
    if options.chart is not None and not _draw(plans, options.chart):
        return BAD_INPUT
    return _exit_code(plans, found, schedules)


def _exit_code(plans: Sequence[ServiceCapacityPlan], found: Input, schedules: Schedules) -> int:
    enough = [one.enough for of_service in schedules.values() for one in of_service]
    if found.bad or any(plan.unknown for plan in plans) or None in enough:
        return BAD_INPUT
    return DOES_NOT_FIT if any(plan.problems for plan in plans) or False in enough else FITS


def _write(
    options: PlanOptions,
    plans: Sequence[ServiceCapacityPlan],
    bad: Sequence[BadInput],
    compared: Sequence[PlanChange] | None,
    schedules: Schedules,
) -> None:
    napkin = options.method is Method.NAPKIN
    if options.output is Output.JSON:
        print(json.dumps(document(plans, bad, compared, schedules), indent=2, ensure_ascii=False, allow_nan=False))
    elif options.output is Output.MARKDOWN:
        print("\n".join(comment(plans, bad, compared, schedules, napkin=napkin)))
    else:
        columns = get_terminal_size().columns if sys.stdout.isatty() else None
        print("\n".join(report(plans, compared, schedules, napkin=napkin, details=options.details, columns=columns)))
    _complain([*bad, *_unknown(plans), *_unreadable(schedules)])


def _unknown(plans: Iterable[ServiceCapacityPlan]) -> Iterable[str]:
    """What a manifest lacks is bad input too, wherever the plan is printed."""
    for plan in plans:
        if plan.unknown:
            yield from (f"{plan.namespace}/{plan.name}: {problem}" for problem in plan.problems)


def _unreadable(schedules: Schedules) -> Iterable[str]:
    for of_service in schedules.values():
        yield from (
            f"{one.namespace}/{one.service}: {one.name}: {one.says}" for one in of_service if one.window_floor.fault
        )


def _complain(faults: Iterable[BadInput | str]) -> None:
    for fault in faults:
        print(fault, file=sys.stderr)


def _planned(manifests: Iterable[Manifest], asked: Asked) -> list[ServiceCapacityPlan]:
    return [_plan_one(manifest, asked) for manifest in manifests]


def _plan_one(manifest: Manifest, asked: Asked) -> ServiceCapacityPlan:
    """With a recording: once for the engine, then again with the share that its lengths leave usable."""
    questions = asked.questions
    recording = next(
        (
            asked.recordings[name]
            for name in (f"{manifest.namespace}/{manifest.name}", manifest.name, "")
            if name in asked.recordings
        ),
        None,
    )
    if recording is not None:
        known = replace(questions.context, lengths=recording.lengths)
        questions = replace(questions, context=known, rates=recorded_rates(recording.times))
        first = plan_service(manifest.namespace, manifest.name, manifest.spec, questions)
        share = _measured_share(first, recording)
        if share is not None:
            questions = replace(questions, context=replace(known, usable_share=share))
    return plan_service(manifest.namespace, manifest.name, manifest.spec, questions)


def _measured_share(first: ServiceCapacityPlan, recording: Recording) -> float | None:
    found = first.plan
    if found is None or found.throughput is None:
        return None
    plan_input, throughput = found.plan_input, found.throughput
    if plan_input.mix is None or plan_input.speculation is not None:
        return None
    return usable_share(
        throughput.engine, plan_input.mix, plan_input.promise, recording.lengths, throughput.batched_tokens
    )


def _compared(
    options: PlanOptions, plans: Sequence[ServiceCapacityPlan], asked: Asked, found: Input
) -> tuple[PlanChange, ...] | None:
    if options.against is None:
        return None
    if options.against.upper() == LIVE:
        keys = {manifest.key for manifest in found.manifests}
        standing = [manifest for manifest in _live(options) if manifest.key in keys]
    else:
        before = read_input([options.against])
        if before.bad:
            raise PlanOptionError("--against", options.against, f"{before.bad[0]}")
        standing = before.manifests
    return changes(_planned(standing, asked), plans)


def _live(options: PlanOptions) -> list[Manifest]:
    """What runs in the cluster; a spec that does not parse is left out, as its operator leaves it alone."""
    from forebay.cli.cluster_connection import cluster_reader
    from forebay.cli.service_reading import ServiceReading, read_services

    async def read() -> tuple[ServiceReading, ...]:
        async with cluster_reader(options.kubeconfig, options.context) as reader:
            return await read_services(reader.api, None)

    return [
        Manifest("cluster", position, reading.namespace, reading.name, reading.spec)
        for position, reading in enumerate(asyncio.run(read()), start=1)
        if reading.spec is not None
    ]


def _draw(plans: Sequence[ServiceCapacityPlan], target: Path) -> bool:
    from forebay.cli.plan.plan_chart import ChartError, draw

    try:
        shown = draw(plans, target)
    except ChartError as error:
        _complain([str(error)])
        return False
    left = len(plans) - shown
    note = f" ({left} more are not in it)" if left else ""
    print(f"wrote {target}{note}", file=sys.stderr)
    return True


def _asked(options: PlanOptions, found: Input) -> Asked:
    known = PlanContext(profiles=tuple(found.profiles), configs=_configs(options.configs), product=options.gpu)
    return Asked(
        questions=PlanSettings(context=known, prices=_prices(options.prices), regions=_regions(options.regions)),
        recordings=_recordings(options.traces),
    )


def _configs(values: Iterable[str]) -> dict[str, CheckpointConfig]:
    found = {}
    for value in values:
        source, path = _named(value)
        try:
            config = json.loads(_text("--config", path))
            if not isinstance(config, dict):
                raise PlanOptionError("--config", path, "is not a JSON object")
            found[source.partition("@")[0]] = read_config(config)
        except ValueError as error:
            reason = str(error) if isinstance(error, ConfigError) else f"not JSON: {said(error)}"
            raise PlanOptionError("--config", path, reason) from error
    return found


def _prices(path: Path | None) -> Prices | None:
    if path is None:
        return None
    try:
        return read_prices(read_yaml(_text("--prices", str(path))))
    except PriceError as error:
        raise PlanOptionError("--prices", path, str(error)) from error
    except yaml.YAMLError as error:
        raise PlanOptionError("--prices", path, f"not YAML: {said(error)}") from error


def _regions(text: str | None) -> tuple[Region, ...]:
    if text is None:
        return ()
    try:
        return read_regions(text)
    except RegionError as error:
        raise PlanOptionError("--regions", text, str(error)) from error


def _recordings(values: Iterable[str]) -> dict[str, Recording]:
    found = {}
    for value in values:
        name, path = _named(value)
        try:
            found[name] = read_trace(_text("--trace", path))
        except TraceError as error:
            raise PlanOptionError("--trace", path, str(error)) from error
    return found


def _named(value: str) -> tuple[str, str]:
    """`NAME=FILE`, or a file for everything that is not named."""
    name, separator, path = value.partition("=")
    return (name, path) if separator and not Path(value).exists() else ("", value)


def _text(flag: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PlanOptionError(flag, path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanOptionError(flag, path, "is not UTF-8 text") from error
