"""The flags of `forebay fit`; `fit_run` does the work."""

from pathlib import Path
from typing import Annotated

import typer


def fit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE|DIR…",
            help="Results of guidellm or aiperf, or /metrics responses of one engine in order of time.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option("--model", help="The services' model.source, such as hf://org/name.")],
    gpu: Annotated[str, typer.Option("--gpu", metavar="PRODUCT", help="The GPU product, as in the node label.")],
    tensor: Annotated[int, typer.Option("--tensor-parallel-size", min=1, max=16, help="GPUs of the engine.")] = 1,
    bits: Annotated[
        int | None, typer.Option("--weight-bits", min=2, max=32, help="Bits per weight.", show_default=False)
    ] = None,
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", help="Minor version of vLLM, such as 0.32.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="The checkpoint's config.json, if the catalogue lacks it.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the profile. Default: model and GPU.", show_default=False)
    ] = None,
) -> None:
    """Fit a PerformanceProfile to measurements of an engine, by least squares.

    Exit codes: 0 a profile, 1 a profile that fits badly, 2 the files contain no measurement.
    """
    from forebay.cli.plan.fit_run import FitOptions
    from forebay.cli.plan.fit_run import fit as run

    raise typer.Exit(run(FitOptions(tuple(files), model, gpu, tensor, bits, engine_version, config, name)))
