"""Blast radius: limits on what one planner may do, even when its input is wrong.

A wrong input may then cost a few replicas in ten minutes, but not the fleet. `observe.plausibility` rejects the most
implausible inputs before that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.planner.observe.free_gpus import gpus_under_ceiling
from forebay.planner.observe.namespace_quotas import NamespaceQuotas
from forebay.planner.reconcile.quota_budget import QuotaBudget
from forebay.planner.reconcile.steps import Step, StepKind
from forebay.world.settings import Settings
from forebay.world.world import World

DRAIN_WINDOW_SECONDS: Final = 600.0
CREATE_WINDOW_SECONDS: Final = 60.0


@dataclass(slots=True)
class Budget:
    """What the limits leave for this tick. Steps are granted in the order of the requests."""

    settings: Settings
    drains: int
    creates: int
    gpus: int | None
    """GPUs left under the ceiling; None without a ceiling."""
    quotas: QuotaBudget
    drained: int = 0
    created: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """The limit that refused a step, as a clause, by service uid."""
    refused_by_ceiling: set[str] = field(default_factory=set)
    """Uids of services of which the GPU ceiling refused a step."""
    lost: dict[str, int] = field(default_factory=dict)
    """Pods that the cluster has taken and that nothing replaces yet, by service uid. Their replacements do not count
    as creations."""

    @classmethod
    def of(
        cls,
        world: World,
        lost_nodes: Collection[str],
        drains: Sequence[float],
        creates: Sequence[float],
        quotas: NamespaceQuotas,
    ) -> "Budget":
        settings = world.settings
        used = gpus_under_ceiling(world.pods, lost_nodes)
        return cls(
            settings=settings,
            drains=max(0, settings.max_drains_per_10_minutes - len(drains)),
            creates=max(0, settings.max_creates_per_minute - len(creates)),
            gpus=None if settings.max_gpus is None else max(0, settings.max_gpus - used),
            quotas=QuotaBudget(quotas),
        )

    def grant(self, uid: str, namespace: str, step: Step) -> bool:
        """Whether the step of a service may be taken. It is granted as a whole or not at all."""
        if step.kind is StepKind.DRAIN:
            return self._drain(uid, step)
        return step.kind is not StepKind.CREATE or self._create(uid, namespace, step)

    def _drain(self, uid: str, step: Step) -> bool:
        if not step.charged:
            self.lost[uid] = self.lost.get(uid, 0) + len(step.actions)
            return True
        if self.drains < 1:
            limit = self.settings.max_drains_per_10_minutes
            self.refused[uid] = f"the operator's limit of {limit} drains per 10 minutes is reached"
            return False
        self.drains -= 1
        self.drained += 1
        return True

    def _create(self, uid: str, namespace: str, step: Step) -> bool:
        replacing = min(self.lost.get(uid, 0), len(step.actions))
        charged = len(step.actions) - replacing
        if self.creates < charged:
            limit = self.settings.max_creates_per_minute
            self.refused[uid] = f"the operator's limit of {limit} pods created per minute is reached"
            return False
        if self.gpus is not None and self.gpus < step.gpus:
            self.refused[uid] = f"the operator's ceiling of {self.settings.max_gpus} GPUs is reached"
            self.refused_by_ceiling.add(uid)
            return False
        if self.quotas.limit(namespace) and not self.quotas.grant(uid, namespace, step):
            self.refused[uid] = self.quotas.holds[uid].why
            return False
        self.creates -= charged
        self.created += charged
        if replacing:
            self.lost[uid] -= replacing
        self.gpus = None if self.gpus is None else self.gpus - step.gpus
        return True


def recent(times: Sequence[float], more: int, window_seconds: float, now: float) -> tuple[float, ...]:
    """Times within the window, and `now` added `more` times."""
    return (*(at for at in times if now - at < window_seconds), *([now] * more))


def by_urgency(serving: Mapping[str, int]) -> list[str]:
    """Uids in the order in which limits are spent: services without a serving replica come first."""
    return sorted(serving, key=lambda uid: (serving[uid] > 0, uid))
