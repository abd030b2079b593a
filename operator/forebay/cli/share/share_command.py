"""The flags of `forebay share`; `share_run` does the work."""

from typing import Annotated, Literal

import typer

from forebay.cli.shared_options import ManifestFiles

Formats = Literal["table", "json"]


def share(
    files: ManifestFiles,
    model: Annotated[
        str, typer.Option("--model", metavar="NAMESPACE/NAME", help="The InferenceService whose tokens are divided.")
    ],
    capacity: Annotated[float, typer.Option("--capacity", help="What it can do, in normalized tokens per minute.")],
    asks: Annotated[
        list[str] | None,
        typer.Option(
            "--ask",
            metavar="TENANT=TOKENS",
            help="What a tenant asks for, in tokens per minute. Repeatable; the others ask for nothing.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Formats, typer.Option("--output", "-o", help="How to write the shares.")] = "table",
) -> None:
    """Show who would get how many tokens per minute of a model, by the TenantQuotas of manifests."""
    from forebay.cli.share.share_run import run

    raise typer.Exit(run(files, model, capacity, asks or [], output))
