"""Nodes and starts of a simulated cluster: what GPUs there are, and how long a pod takes until it is ready.

A start is drawn from a log-normal around the median of its warm state. The n-th start of a run is drawn from the seed
and n alone, so every policy meets the same fast and slow starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from random import Random
from typing import Final

SLOWEST_FACTOR: Final = 2.5
"""No draw is further from its median than this, either way."""


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """Medians in seconds (45 s with image and weights at hand, 120 s without, 300 s with a new node)."""

    warm_seconds: float = 45.0
    """From placed to Ready on a node where a placeholder has pulled the image and holds the weights."""
    ready_seconds: float = 120.0
    """On a node that has to pull and load everything."""
    node_seconds: float = 180.0
    """Until a node that is asked for has joined."""
    spread: float = 0.15
    """Standard deviation of the logarithm; 0 for exact times."""

    def draw(self, median_seconds: float, seed: int, what: str, number: int) -> float:
        """The time of the `number`-th of its kind."""
        factor = exp(self.spread * Random(f"{seed}/{what}/{number}").gauss(0.0, 1.0))
        return median_seconds * min(max(factor, 1 / SLOWEST_FACTOR), SLOWEST_FACTOR)


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes of one kind: those that are there, and those that a node autoscaler may add when pods find no place."""

    name: str = "gpu"
    nodes: int = 2
    gpus_per_node: int = 8
    warm_nodes: int = 0
    """The first so many hold image and weights already."""
    more_nodes: int = 0
    """May be added; 0 for a fixed cluster."""
    resource_name: str = "nvidia.com/gpu"
    labels: tuple[tuple[str, str], ...] = ()
