"""`forebay simulate`: plays traffic against a manifest, for Forebay and for other systems' scaling rules."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from forebay.cli.charts import ChartError
from forebay.cli.manifest_input import ManifestInput, ServiceManifest, read_input
from forebay.cli.simulate.simulate_chart import draw
from forebay.cli.simulate.simulate_html import html_of
from forebay.cli.simulate.simulate_table import table_of
from forebay.planner.decide.service_schedules import planned_capacity
from forebay.scaling.replica_weights import EVEN
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.cluster.scheduled_windows import windows_of
from forebay.simulation.cluster.served_model import pool_of_manifest, view_of_manifest
from forebay.simulation.compare.comparison import ComparedCase, Comparison, Result, true_model
from forebay.simulation.compare.simulation_report import document
from forebay.simulation.peers.peer_grid import PeerSetting, defaults, static
from forebay.simulation.traffic.flow import DAY_SECONDS, Flow, flow_of, flow_of_shape, requests_of_shape
from forebay.simulation.traffic.trace_file import TraceError
from forebay.simulation.traffic.traces import Trace, between, parse_shape, rate_factor, read_file
from forebay.world.world import ServiceView

PLAYED, BAD_INPUT = 0, 2
"""Exit codes."""
HOUR_SECONDS = 3600.0
SHAPE_HOURS = 1.0
"""Played of a shape when neither hours nor days are given."""
MOST_DISCRETE = 500_000
"""Requests. Traffic with more is played in the fluid model, unless `--model discrete` is given."""
Model = Literal["auto", "discrete", "fluid"]
DEFAULT_LENGTHS = (500.0, 200.0)
"""Prompt and output tokens of a shape, for manifests that declare no traffic."""


class InputError(ValueError):
    """Why the input cannot be simulated, as one sentence."""


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The flags as they were typed; no file has been opened."""

    files: tuple[str, ...]
    traces: tuple[str, ...] = ()
    shape: str | None = None
    rate_factor: float = 1.0
    hours: float | None = None
    days: float | None = None
    model: Model = "auto"
    seed: int = 1
    cold_start_seconds: float = 120.0
    off_by: float = 0.2
    peers: str | None = None
    as_json: bool = False
    chart: Path | None = None
    page: Path | None = None


def simulate(options: SimulateOptions) -> int:
    """Play, print the report and return the exit code."""
    try:
        manifests = _manifests(options)
        comparisons = [_comparison(options, manifest, manifests) for manifest in manifests.services]
        entries = _entries(options.peers)
        documents = [_play(options, comparison, entries) for comparison in comparisons]
        _write(options, documents)
    except (InputError, ChartError) as error:
        print(f"forebay simulate: {error}", file=sys.stderr)
        return BAD_INPUT
    return PLAYED


def _manifests(options: SimulateOptions) -> ManifestInput:
    manifests = read_input(options.files)
    if manifests.bad:
        raise InputError("; ".join(str(fault) for fault in manifests.bad))
    if not manifests.services:
        raise InputError(f"{', '.join(options.files)}: these files contain no InferenceService")
    for pool in manifests.warm_pools:
        print(
            f"WarmPool {pool.metadata.name} is part of the simulated cluster, but its GPUs are not in the GPU-hours.",
            file=sys.stderr,
        )
    for quota in manifests.tenant_quotas:
        print(
            f"TenantQuota {quota.metadata.name} is not simulated yet: every request is served alike.", file=sys.stderr
        )
    return manifests


def _comparison(options: SimulateOptions, manifest: ServiceManifest, manifests: ManifestInput) -> Comparison:
    name = f"{manifest.namespace}/{manifest.name}"
    view = view_of_manifest(
        {
            "metadata": {"name": manifest.name, "namespace": manifest.namespace},
            "spec": manifest.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        },
        profiles=tuple(manifests.profiles),
    )
    if view.problems or view.wanted is None:
        raise InputError(f"{name}: {'; '.join(problem.message for problem in view.problems)}")
    try:
        trace, seconds = _traffic(options, manifest, view)
        if not len(trace):
            raise InputError(f"{name}: {trace.name} has no request to play; give a rate above 0, or more hours")
        starts = ColdStarts(ready_seconds=options.cold_start_seconds)
        model = true_model(view, options.seed, options.off_by)
        pools = tuple(pool_of_manifest(pool) for pool in manifests.warm_pools)
        return Comparison(
            _with_windows(ComparedCase(model, trace, seconds, options.seed, starts=starts, warm_pools=pools))
        )
    except (ValueError, OSError, TraceError) as error:
        raise InputError(str(error)) from error


def _with_windows(case: ComparedCase) -> ComparedCase:
    """The case with the windows of the manifest's schedules, for policies that know a calendar and for the report.

    A floor that is a rate becomes as many replicas as the operator makes of it. Where the operator cannot compute them,
    the window is not judged, and a line on standard error says why.
    """
    capacity = planned_capacity(case.model.view, EVEN)
    windows = [(window, window.replicas(capacity)) for window in windows_of(case.model.view, case.epoch, case.seconds)]
    for sentence in dict.fromkeys(window.not_judged for window, floor in windows if floor is None):
        print(f"{case.key}: {sentence}", file=sys.stderr)
    spans = tuple((window.begin, window.end) for window, floor in windows if floor is not None)
    floors = tuple(floor for _, floor in windows if floor is not None)
    if not floors:
        return case
    return replace(case, windows=spans, window_floors=floors, window_replicas=max(floors))


def _traffic(options: SimulateOptions, manifest: ServiceManifest, view: ServiceView) -> tuple[Trace | Flow, float]:
    """The traffic and its seconds: every request, or a flow for `--model fluid` and for very many requests."""
    if options.hours is not None and options.days is not None:
        raise InputError("--hours and --days: both set how much is played; give one of them")
    given = options.days * DAY_SECONDS if options.days else options.hours * HOUR_SECONDS if options.hours else None
    seconds = SHAPE_HOURS * HOUR_SECONDS if given is None else given
    if _path(options, manifest) is None and options.shape is not None and options.rate_factor == 1.0:
        requests = requests_of_shape(options.shape, seconds)
        if options.model == "fluid" or (options.model == "auto" and requests > MOST_DISCRETE):
            return flow_of_shape(options.shape, seconds, options.seed, _lengths(manifest)), seconds
    trace = _trace(options, manifest, view, seconds)
    seconds = trace.seconds if given is None else given
    if options.model == "fluid" or (options.model == "auto" and len(trace) > MOST_DISCRETE):
        return flow_of(trace, seconds), seconds
    return between(trace, 0.0, seconds), seconds


def _lengths(manifest: ServiceManifest) -> tuple[float, float]:
    traffic = manifest.spec.traffic
    return DEFAULT_LENGTHS if traffic is None else (float(traffic.prompt_tokens), float(traffic.output_tokens))


def _path(options: SimulateOptions, manifest: ServiceManifest) -> str | None:
    """The recording that names the service, else the one without a name."""
    paths = dict(_names_and_files(options.traces))
    return paths.get(manifest.name, paths.get(f"{manifest.namespace}/{manifest.name}", paths.get("")))


def _trace(options: SimulateOptions, manifest: ServiceManifest, view: ServiceView, seconds: float) -> Trace:
    """The recorded or synthetic requests of a service."""
    path = _path(options, manifest)
    if path is not None:
        trace = read_file(Path(path))
    elif options.shape is not None:
        trace = parse_shape(options.shape, seconds, options.seed, _lengths(manifest))
    else:
        raise InputError(f"{view.key} has no traffic; give --trace FILE or --shape steady:20")
    return trace if options.rate_factor == 1.0 else rate_factor(trace, options.rate_factor, options.seed)


def _names_and_files(traces: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in traces:
        service, separator, path = text.partition("=")
        yield (service, path) if separator else ("", service)


def _entries(peers: str | None) -> list[PeerSetting | str]:
    """The policies of `--peers`, by the beginnings of their names; the oracle is given by its name."""
    if peers is None:
        return []
    every: list[PeerSetting | str] = [*defaults(), static(), "oracle"]
    if peers == "all":
        return every
    chosen: list[PeerSetting | str] = []
    for name in filter(None, (part.strip().lower() for part in peers.split(","))):
        matching = [e for e in every if (e if isinstance(e, str) else e.rule).lower().startswith(name)]
        if not matching:
            known = ", ".join(dict.fromkeys((e if isinstance(e, str) else e.rule.split()[0]) for e in every))
            raise InputError(f"--peers: {name!r} is unknown; use all, or names from {known}")
        chosen += matching
    return chosen


def _play(options: SimulateOptions, comparison: Comparison, entries: list[PeerSetting | str]) -> dict[str, Any]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    results: list[Result] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for number, entry in enumerate(["Forebay", *entries]):
            name = entry if isinstance(entry, str) else entry.rule
            task = progress.add_task(f"{comparison.case.key}: {name} ({number + 1} of {len(entries) + 1})", total=1.0)
            comparison.on_progress = partial(_advance, progress, task)
            if isinstance(entry, PeerSetting):
                results.append(comparison.peer(entry))
            else:
                results.append(comparison.oracle() if entry == "oracle" else comparison.forebay())
            progress.remove_task(task)
    inputs = {"rateFactor": options.rate_factor, "offBy": options.off_by}
    return document(comparison, results, inputs)


def _advance(progress: Progress, task: TaskID, share: float) -> None:
    progress.update(task, completed=share)


def _write(options: SimulateOptions, documents: list[dict[str, Any]]) -> None:
    if options.chart is not None:
        draw(documents, options.chart)
    if options.page is not None:
        options.page.write_text(html_of(documents), encoding="utf-8")
    if options.as_json:
        print(json.dumps(documents[0] if len(documents) == 1 else documents, indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    for content in documents:
        for part in table_of(content):
            console.print(part)
