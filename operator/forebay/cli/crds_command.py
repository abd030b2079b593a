"""`forebay crds`: writes the CustomResourceDefinitions and the API reference page from the models of the API."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer


def crds(
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output", "-o", help="Directory to write one file per kind to, or - for standard output. Repeatable."
        ),
    ] = None,
    docs: Annotated[Path | None, typer.Option(help="Also write the API reference page to this file.")] = None,
) -> None:
    """Write the CustomResourceDefinitions that this version of Forebay uses."""
    from forebay.api.schema.api_reference import page
    from forebay.api.schema.crds import files

    definitions = files()
    for target in output or ([] if docs else ["-"]):
        if target == "-":
            typer.echo("---\n".join(definitions.values()), nl=False)
        else:
            _write(Path(target), definitions)
    if docs:
        docs.parent.mkdir(parents=True, exist_ok=True)
        docs.write_text(page(), encoding="utf-8")


def _write(directory: Path, definitions: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in definitions.items():
        (directory / name).write_text(text, encoding="utf-8")
