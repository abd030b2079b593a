"""`forebay plan`: from flags to options; what runs is `cli.plan.plan_run`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from forebay.cli import shared_options as kube
from forebay.cli.manifest_options import Files

Formats = Literal["table", "json", "markdown"]
Methods = Literal["profile", "napkin"]


def plan(
    files: Files,
    output: Annotated[Formats, typer.Option("--output", "-o", help="How to write the plan.")] = "table",
    method: Annotated[
        Methods, typer.Option("--method", help="napkin: show the first guess beside the plan, and why they differ.")
    ] = "profile",
    details: Annotated[
        bool | None,
        typer.Option(
            "--details/--no-details",
            help="The arithmetic of every service. Default: of few services, and of those that do not fit.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="LIVE|FILE|DIR",
            help="Say what changes in GPUs, TPM and cost against other manifests, or what the cluster has.",
            show_default=False,
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="PRODUCT", help="GPU of services that name none.", show_default=False),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="[SOURCE=]FILE",
            help="A checkpoint's config.json, for models that the catalogue does not have. Repeatable.",
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
            help="Size each region so that the loss of any one is survived.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="[SERVICE=]FILE",
            help="Recorded traffic (CSV or JSON lines): its lengths and its shape. Repeatable.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE.png", help="Also draw demand, capacity and memory.", show_default=False),
    ] = None,
    kubeconfig: kube.Kubeconfig = None,
    context: kube.Context = None,
) -> None:
    """Size services from their manifests: tokens per minute, replicas and GPUs, with the arithmetic shown.

    Exit codes: 0 everything fits, 1 something does not fit, 2 the input cannot be read or says too little.
    """
    from forebay.cli.plan.plan_run import Method, Output, PlanOptions
    from forebay.cli.plan.plan_run import plan as show

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
    raise typer.Exit(show(options))
