"""Flags with which every command that talks to a cluster says which one; as in kubectl."""

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
        help="Context of the kubeconfig. Default: its current one.",
        show_default=False,
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace. Default: that of the context.", show_default=False),
]
