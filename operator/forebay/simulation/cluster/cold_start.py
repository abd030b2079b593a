"""Node pools and cold starts of a simulated cluster: which GPUs it has, and how long a pod takes to become ready.

A start time is drawn from a log-normal distribution around a median, which depends on what the node already holds. The
n-th start of a run is drawn from the seed and n alone, so every policy gets the same fast and slow starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from random import Random
from typing import Final

SLOWEST_FACTOR: Final = 2.5
"""Drawn times lie between the median divided by this factor and the median times this factor."""


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """Median start times in seconds: by default 45 s on a warm node, 120 s on a cold one, 300 s with a new node."""

    warm_seconds: float = 45.0
    """From placement to Ready on a node that holds the image and the weights."""
    ready_seconds: float = 120.0
    """From placement to Ready on a node that has to pull the image and the weights."""
    node_seconds: float = 180.0
    """From the request for a node until the node has joined."""
    spread: float = 0.15
    """Standard deviation of the time's logarithm; 0 for exact times."""

    def draw(self, median_seconds: float, seed: int, kind: str, number: int) -> float:
        """The `number`-th time of a kind (`start`, `pull`, …)."""
        factor = exp(self.spread * Random(f"{seed}/{kind}/{number}").gauss(0.0, 1.0))
        return median_seconds * min(max(factor, 1 / SLOWEST_FACTOR), SLOWEST_FACTOR)


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes of one kind: the initial ones, and those that a node autoscaler may add when pods do not fit."""

    name: str = "gpu"
    nodes: int = 2
    gpus_per_node: int = 8
    warm_nodes: int = 0
    """Number of initial nodes that already hold the image and the weights."""
    more_nodes: int = 0
    """Number of nodes that the autoscaler may add; 0 for a fixed cluster."""
    resource_name: str = "nvidia.com/gpu"
    labels: tuple[tuple[str, str], ...] = ()
