"""`python -m e2e.harness`: starts a cluster for manual work, and builds its parts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from e2e.harness import leftovers, machine_lock
from e2e.harness.binaries import ensure
from e2e.harness.control_plane import ControlPlane
from e2e.harness.failure import HarnessError
from e2e.harness.images import CHECKOUT, engine_sim_image, forebay_image
from e2e.harness.node_cluster import NodeCluster
from e2e.harness.progress import console, working_on
from e2e.harness.recipes import RECIPES
from e2e.harness.state import CONTROL_PLANE_MODE, NODES_MODE, forget, noted, stop_processes

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
    up.add_argument("--gpu-nodes", type=int, default=0, help="KWOK nodes to add, with 8 GPUs each (default 0)")
    up.add_argument("--images", action="store_true", help="build the project's images and load them into the nodes")
    up.set_defaults(act=_up)
    down = verbs.add_parser("down", help="stop a cluster and remove its folder")
    down.set_defaults(act=_down)
    for verb in (up, down):
        verb.add_argument(
            "--mode",
            choices=[CONTROL_PLANE_MODE, NODES_MODE],
            default=NODES_MODE if os.geteuid() == 0 else CONTROL_PLANE_MODE,
            help="real nodes (root's default), or an API server with KWOK",
        )
        verb.add_argument("--name", help="folder below .cluster/ (default: the mode)")
        verb.add_argument("--directory", type=Path, help="folder of the cluster, instead of a name")
    verbs.add_parser("status", help="list this user's clusters and left-overs").set_defaults(act=_status)
    build = verbs.add_parser("build", help="build binaries into the cache")
    build.add_argument("names", nargs="*", help=f"some of {', '.join(recipe.name for recipe in RECIPES)}; all of them")
    build.set_defaults(act=_build)
    verbs.add_parser("images", help="build the project's images and print their names").set_defaults(act=_images)
    return parser


def _directory(arguments: argparse.Namespace) -> Path:
    given: Path | None = arguments.directory
    return (given or CLUSTERS / (arguments.name or arguments.mode)).resolve()


def _up(arguments: argparse.Namespace) -> None:
    kind = NodeCluster if arguments.mode == NODES_MODE else ControlPlane
    with working_on(f"starting a {arguments.mode} cluster"):
        plane = kind.start(_directory(arguments), outlives_starter=True)
        plane.add_gpu_nodes(arguments.gpu_nodes)
    if arguments.images and isinstance(plane, NodeCluster):
        images = (forebay_image(), engine_sim_image())
        with working_on("loading images"):
            plane.load(*images)
    print(f"export KUBECONFIG={plane.kubeconfig}")
    print(f"export PATH={plane.kubectl.binary.parent}:$PATH")


def _down(arguments: argparse.Namespace) -> None:
    directory = _directory(arguments)
    stop_processes(directory)
    if arguments.mode == NODES_MODE and machine_lock.holder() in (directory, None):
        leftovers.clean()
        machine_lock.release(directory)
    forget(directory)


def _status(_: argparse.Namespace) -> None:
    for directory, state in noted():
        print(state.described(directory) + (" (abandoned)" if state.abandoned else ""))
    if os.geteuid() == 0 and machine_lock.holder() is None:
        for thing in leftovers.found():
            print(f"left over: {thing}")


def _build(arguments: argparse.Namespace) -> None:
    known = {recipe.name: recipe for recipe in RECIPES}
    if unknown := set(arguments.names) - set(known):
        raise HarnessError(f"No recipe for {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
    ensure(tuple(known[name] for name in arguments.names or known))


def _images(_: argparse.Namespace) -> None:
    for image in (forebay_image(), engine_sim_image()):
        print(image.reference)


if __name__ == "__main__":
    sys.exit(main())
