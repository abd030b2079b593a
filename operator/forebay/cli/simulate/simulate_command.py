"""The flags of `forebay simulate`; `simulate_run` does the work."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from forebay.cli.shared_options import ManifestFiles

Formats = Literal["table", "json"]
Models = Literal["auto", "discrete", "fluid"]


def simulate(
    files: ManifestFiles,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="[SERVICE=]FILE",
            help="Recorded traffic (CSV or JSON lines). Repeatable.",
            show_default=False,
        ),
    ] = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            metavar="KIND:NUMBERS",
            help="Synthetic traffic with the manifest's mean lengths: steady:RATE, step:RATE,RATE@SECOND, "
            "ramp:RATE,RATE@SECOND-SECOND or diurnal:MEAN,PEAKFACTOR (requests a second).",
            show_default=False,
        ),
    ] = None,
    rate_factor: Annotated[
        float, typer.Option("--rate-factor", help="Multiply the requests of the trace.", min=0.0001)
    ] = 1.0,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours",
            help="Hours to play. Default: the whole trace, or 1 of a shape.",
            min=0.01,
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option("--days", help="Days to play, instead of --hours.", min=0.01, show_default=False),
    ] = None,
    model: Annotated[
        Models,
        typer.Option(
            "--model",
            help="discrete plays every request, fluid the flow of each 2.5 seconds; auto is fluid above 500,000 "
            "requests. The report names the model.",
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same report.")] = 1,
    cold_start: Annotated[
        float, typer.Option("--cold-start", help="Seconds from a pod's binding to a node until it is ready.", min=1)
    ] = 120.0,
    off_by: Annotated[
        float,
        typer.Option(
            "--off-by",
            help="Largest difference of the true engine from the profile that the planner uses, as a fraction.",
            min=0.0,
            max=0.5,
        ),
    ] = 0.2,
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="all|NAME,…",
            help="Also play these policies: HPA, KEDA, Knative, AIBrix, Ray, WVA, Dynamo, static, oracle.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Formats, typer.Option("--output", "-o", help="How to write the report.")] = "table",
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE.png", help="Also draw replicas, queue and latency.", show_default=False),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE.html", help="Also write the whole report as one page.", show_default=False
        ),
    ] = None,
) -> None:
    """Play traffic against a manifest: replicas over time, requests in time, GPU-hours, and every decision.

    The operator's own planner decides. Exit codes: 0 played, 2 the input cannot be read or says too little.
    """
    from forebay.cli.simulate.simulate_run import SimulateOptions
    from forebay.cli.simulate.simulate_run import simulate as run

    options = SimulateOptions(
        files=tuple(files),
        traces=tuple(trace or ()),
        shape=shape,
        rate_factor=rate_factor,
        hours=hours,
        days=days,
        model=model,
        seed=seed,
        cold_start_seconds=cold_start,
        off_by=off_by,
        peers=peers,
        as_json=output == "json",
        chart=chart,
        page=page,
    )
    raise typer.Exit(run(options))
