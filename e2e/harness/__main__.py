"""`python -m e2e.harness`: a cluster to work with by hand, and the binaries it is made of."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.harness.binaries import ensure
from e2e.harness.control_plane import ControlPlane
from e2e.harness.failure import HarnessError
from e2e.harness.progress import console, working_on
from e2e.harness.recipes import RECIPES
from e2e.harness.state import forget, noted, stop_processes

CHECKOUT = Path(__file__).resolve().parents[2]
CLUSTERS = CHECKOUT / ".cluster"


def main() -> int:
    arguments = _parser().parse_args()
    try:
        arguments.act(arguments)
    except HarnessError as error:
        console.print(f"error: {error}", style="red", soft_wrap=True, markup=False)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.harness", description=__doc__)
    verbs = parser.add_subparsers(required=True)
    up = verbs.add_parser("up", help="start a cluster that stays until `down`")
    up.add_argument("--gpu-nodes", type=int, default=4, help="KWOK nodes with 8 GPUs each (default 4)")
    up.set_defaults(act=_up)
    down = verbs.add_parser("down", help="stop a cluster and remove its folder")
    down.set_defaults(act=_down)
    for verb in (up, down):
        verb.add_argument("--mode", choices=["control-plane"], default="control-plane")
        verb.add_argument("--name", help="folder below .cluster/ (default: the mode)")
        verb.add_argument("--directory", type=Path, help="folder of the cluster, instead of a name")
    verbs.add_parser("status", help="list this user's clusters").set_defaults(act=_status)
    build = verbs.add_parser("build", help="build binaries into the cache")
    build.add_argument("names", nargs="*", help=f"some of {', '.join(recipe.name for recipe in RECIPES)}; all of them")
    build.set_defaults(act=_build)
    return parser


def _directory(arguments: argparse.Namespace) -> Path:
    given: Path | None = arguments.directory
    return (given or CLUSTERS / (arguments.name or arguments.mode)).resolve()


def _up(arguments: argparse.Namespace) -> None:
    with working_on(f"starting a {arguments.mode} cluster"):
        plane = ControlPlane.start(_directory(arguments), outlives_starter=True)
        plane.add_gpu_nodes(arguments.gpu_nodes)
    print(f"export KUBECONFIG={plane.kubeconfig}")
    print(f"export PATH={plane.kubectl.binary.parent}:$PATH")


def _down(arguments: argparse.Namespace) -> None:
    directory = _directory(arguments)
    stop_processes(directory)
    forget(directory)


def _status(_: argparse.Namespace) -> None:
    for directory, state in noted():
        print(state.described(directory))


def _build(arguments: argparse.Namespace) -> None:
    known = {recipe.name: recipe for recipe in RECIPES}
    if unknown := set(arguments.names) - set(known):
        raise HarnessError(f"No recipe for {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
    ensure(tuple(known[name] for name in arguments.names or known))


if __name__ == "__main__":
    sys.exit(main())
