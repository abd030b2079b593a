"""The flags of `forebay plan`; `plan_run` does the work."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from forebay.cli.shared_options import Context, Kubeconfig, ManifestFiles

Formats = Literal["table", "json", "markdown"]
Methods = Literal["profile", "napkin"]


def plan(
    files: ManifestFiles,
    output: Annotated[Formats, typer.Option("--output", "-o", help="How to write the plan.")] = "table",
    method: Annotated[
        Methods, typer.Option("--method", help="napkin: add the back-of-envelope estimate, and why it differs.")
    ] = "profile",
    details: Annotated[
        bool | None,
        typer.Option(
            "--details/--no-details",
            help="Show the arithmetic of every service. Default: up to 5 services, and those that do not fit.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="LIVE|FILE|DIR",
            help="Show what changes in GPUs, TPM and cost against other manifests, or against the cluster.",
            show_default=False,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="PRODUCT", help="GPU for services that do not name one.", show_default=False),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="[SOURCE=]FILE",
            help="A checkpoint's config.json, for a model that is not in the catalogue. Repeatable.",
            show_default=False,
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices", metavar="FILE", help="Price list: currency, and gpuHours by product.", show_default=False
        ),
    ] = None,
    regions: Annotated[
        str | None,
        typer.Option(
            "--regions",
            metavar="NAME=SHARE,…",
            help="Size each region so that the others carry the traffic when any one region is lost.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="[SERVICE=]FILE",
            help="Recorded traffic (CSV or JSON lines): request lengths and daily shape. Repeatable.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE.png", help="Also draw demand, capacity and memory.", show_default=False),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Size services from their manifests: tokens per minute, replicas and GPUs, with the arithmetic shown.

    Exit codes: 0 everything fits, 1 something does not fit, 2 the input cannot be read or says too little.
    """
    from forebay.cli.plan.plan_options import Method, Output, PlanOptions
    from forebay.cli.plan.plan_run import plan as run

    options = PlanOptions(
        files=tuple(files),
        output=Output(output),
        method=Method(method),
        details=details,
        against=against,
        gpu=gpu,
        configs=tuple(config or ()),
        prices=prices,
        regions=regions,
        traces=tuple(trace or ()),
        chart=chart,
        kubeconfig=kubeconfig,
        context=context,
    )
    raise typer.Exit(run(options))
