"""Replica weights: the capacity of each replica, in replicas of the service's own shape.

A replica of a variant may have half the capacity, or twice. Scaling rules compute a need in replicas of the service's
own shape. This module converts that need into a number of actual replicas, existing and new. If all replicas are
alike, that number is the need rounded up.
"""

from dataclasses import dataclass
from math import fsum
from typing import Final

from forebay.scaling.decision import count, number, whole_replicas


@dataclass(frozen=True, slots=True)
class ReplicaWeights:
    live: tuple[float, ...] = ()
    """Weights of the existing replicas; those that would be removed first come last."""
    new: float = 1.0
    """Weight of each replica that would be created."""

    @property
    def even(self) -> bool:
        """Whether every weight is 1, so that replicas are simply counted."""
        return self.new == 1.0 and all(weight == 1.0 for weight in self.live)

    def capacity_of(self, replicas: int) -> float:
        """Capacity of so many replicas: the existing ones that would be removed last, then new ones."""
        kept = self.live[: max(0, replicas)]
        return fsum(kept) + max(0, replicas - len(kept)) * self.new

    def replicas_for(self, need: float) -> int:
        """The smallest number of replicas whose capacity covers the need."""
        if self.even:
            return whole_replicas(need)
        for replicas in range(len(self.live)):
            if whole_replicas(need - self.capacity_of(replicas)) <= 0:
                return replicas
        return len(self.live) + max(0, whole_replicas((need - self.capacity_of(len(self.live))) / self.new))

    def shown(self, replicas: int) -> str:
        """The count with its capacity, for sentences that compare it with a need."""
        shown = count(replicas, "replica")
        if self.even:
            return shown
        return f"{shown} with the capacity of {number(self.capacity_of(replicas))} base replicas"


EVEN: Final = ReplicaWeights()
