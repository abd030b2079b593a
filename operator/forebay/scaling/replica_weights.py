"""Weights: what each replica carries, in replicas of the service's own shape.

A replica of a variant may carry half as much, or twice. Rules that come to so many replicas mean the service's own; how
many of those that there are, and of those to come, carry as much is counted here. Where all are alike, it is that
number rounded up.
"""

from dataclasses import dataclass
from math import fsum
from typing import Final

from forebay.scaling.decision import count, number, whole_replicas


@dataclass(frozen=True, slots=True)
class ReplicaWeights:
    live: tuple[float, ...] = ()
    """Of the replicas there are; those that would go first come last."""
    new: float = 1.0
    """Of each that would be created."""

    @property
    def even(self) -> bool:
        """Whether replicas are simply counted."""
        return self.new == 1.0 and all(weight == 1.0 for weight in self.live)

    def carried(self, replicas: int) -> float:
        """What so many carry: the last ones to go, and new ones beyond those there are."""
        kept = self.live[: max(0, replicas)]
        return fsum(kept) + max(0, replicas - len(kept)) * self.new

    def replicas_for(self, need: float) -> int:
        """The fewest that carry it."""
        if self.even:
            return whole_replicas(need)
        for replicas in range(len(self.live)):
            if whole_replicas(need - self.carried(replicas)) <= 0:
                return replicas
        return len(self.live) + max(0, whole_replicas((need - self.carried(len(self.live))) / self.new))

    def shown(self, replicas: int) -> str:
        """So many, as people read it where they are compared with a need."""
        shown = count(replicas, "replica")
        return shown if self.even else f"{shown}, which carry as much as {number(self.carried(replicas))} of base"


EVEN: Final = ReplicaWeights()
