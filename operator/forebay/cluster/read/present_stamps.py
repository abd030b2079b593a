"""Present stamps: the ages of pods and nodes stay right when the API server's clock was set.

Without this, a drain would end, or last, by as much as the clock was moved. Only pods and nodes carry stamps that
decide; it is done only after a step, so ordinary ticks copy nothing.
"""

from dataclasses import replace
from typing import Any, Final

from forebay.cluster.client.server_clock import ServerClock
from forebay.world.world import NodeView, PodView, World

POD_STAMPS: Final = ("created_at", "ready_since", "unready_since", "scheduled_at", "running_since", "drain_started_at")
NODE_STAMPS: Final = ("created_at", "unready_since")


def with_present_stamps(world: World, clock: ServerClock) -> World:
    """The World with every stamp as the server's present clock would have written it."""
    return replace(
        world,
        pods=tuple(_pod(pod, clock) for pod in world.pods),
        nodes=tuple(_node(node, clock) for node in world.nodes),
    )


def _pod(pod: PodView, clock: ServerClock) -> PodView:
    moved = _moved(pod, POD_STAMPS, clock)
    return replace(pod, **moved) if moved else pod


def _node(node: NodeView, clock: ServerClock) -> NodeView:
    moved = _moved(node, NODE_STAMPS, clock)
    return replace(node, **moved) if moved else node


def _moved(view: PodView | NodeView, names: tuple[str, ...], clock: ServerClock) -> dict[str, Any]:
    """The stamps that are from before a step, by name."""
    stamps = {name: at for name in names if (at := getattr(view, name)) is not None}
    return {name: present for name, at in stamps.items() if (present := clock.present(at)) != at}
