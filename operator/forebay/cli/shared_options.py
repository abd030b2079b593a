"""Options that several commands share: which cluster, as in kubectl, and which manifests."""

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        envvar="FOREBAY_KUBECONFIG",
        help="Kubeconfig file. Default: KUBECONFIG, the pod's service account, ~/.kube/config.",
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        envvar="FOREBAY_CONTEXT",
        help="Context of the kubeconfig. Default: its current context.",
        show_default=False,
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace. Default: that of the context.", show_default=False),
]
ManifestFiles = Annotated[
    list[str],
    typer.Option(
        "--file",
        "-f",
        metavar="FILE|DIR|-",
        help="Manifests: a file, a folder and everything below it, or - for standard input. Repeatable.",
        show_default=False,
    ),
]
