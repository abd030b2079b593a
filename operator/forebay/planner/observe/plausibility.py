"""Plausibility: a world from which everything has vanished is more likely a read error than the truth."""

from typing import Final

from forebay.planner.memory import Census
from forebay.scaling.decision import seconds
from forebay.world.world import World

MANY: Final = 3
MANY_PODS: Final = 10
DOUBT_SECONDS: Final = 600.0
"""An implausible world that stays the same for this long is believed, because the nodes may really be gone."""
DOUBT_PODS_SECONDS: Final = 60.0


def doubt(world: World, census: Census, now: float) -> tuple[str | None, Census]:
    """Why this world is implausible, or None, and the census to remember."""
    since = now if census.doubted_since is None else census.doubted_since
    for kind, before, count, many, limit_seconds in (
        ("InferenceServices", census.services, len(world.services), MANY, DOUBT_SECONDS),
        ("nodes", census.nodes, len(world.nodes), MANY, DOUBT_SECONDS),
        ("pods", census.pods, len(world.pods), MANY_PODS, DOUBT_PODS_SECONDS),
    ):
        if count == 0 and before >= many and now - since < limit_seconds:
            held = (
                f"there were {before} {kind} and now there are none; nothing is planned until some are back, for at "
                f"most {seconds(limit_seconds)}"
            )
            return held, Census(census.services, census.nodes, census.pods, since)
    return None, Census(len(world.services), len(world.nodes), len(world.pods))
