"""Plausibility: when all objects of a kind are gone at once, a failed read is the more likely cause."""

from typing import Final

from forebay.planner.memory import ObjectCounts
from forebay.scaling.decision import seconds
from forebay.world.world import World

MANY: Final = 3
MANY_PODS: Final = 10
IMPLAUSIBLE_SECONDS: Final = 600.0
"""An implausible world is accepted after this time, because the nodes may really be gone."""
IMPLAUSIBLE_PODS_SECONDS: Final = 60.0


def implausible(world: World, object_counts: ObjectCounts, now: float) -> tuple[str | None, ObjectCounts]:
    """Why this world is implausible, or None, and the counts to remember."""
    since = now if object_counts.implausible_since is None else object_counts.implausible_since
    for kind, before, count, many, limit_seconds in (
        ("InferenceServices", object_counts.services, len(world.services), MANY, IMPLAUSIBLE_SECONDS),
        ("nodes", object_counts.nodes, len(world.nodes), MANY, IMPLAUSIBLE_SECONDS),
        ("pods", object_counts.pods, len(world.pods), MANY_PODS, IMPLAUSIBLE_PODS_SECONDS),
    ):
        if count == 0 and before >= many and now - since < limit_seconds:
            held = (
                f"there were {before} {kind} and now there are none; nothing is planned until some are back, for at "
                f"most {seconds(limit_seconds)}"
            )
            return held, ObjectCounts(object_counts.services, object_counts.nodes, object_counts.pods, since)
    return None, ObjectCounts(len(world.services), len(world.nodes), len(world.pods))
