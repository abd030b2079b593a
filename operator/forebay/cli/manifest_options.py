"""The option that names manifests, alike for every command that reads them."""

from typing import Annotated

import typer

Files = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE|DIR|-",
        help="Manifests: a file, a folder with all below it, or - for standard input. Repeatable.",
        show_default=False,
    ),
]
