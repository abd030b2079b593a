"""Notices: how long replicas of a node that ends soon go on serving.

A replica whose node ends is lost whatever is done, and its replacement often takes longer to load than the notice
lasts. Serving until the end cuts the requests of that moment; draining at once leaves nobody who serves. So it serves
until the rest of the time is what its requests take.
"""

from typing import Final

from forebay.planner.observe.service_context import ServiceContext

LONGEST_DRAIN_SECONDS: Final = 60.0
"""Time for requests of unknown or great length: half of the notice."""
SHORTEST_DRAIN_SECONDS: Final = 15.0
"""Time until proxies have noticed that the replica drains, and for short requests."""
LONG_REQUEST: Final = 3.0
"""Tokens of a long answer, in means: about 95 of 100 are shorter where lengths are exponential."""


def latest_start(context: ServiceContext, node_ends_at: float) -> float:
    """When the drain of a replica must begin whose node ends at this time."""
    return node_ends_at - _drain_seconds(context)


def _drain_seconds(context: ServiceContext) -> float:
    """How long the requests of a replica take to finish, at the promised latency between tokens."""
    lengths = context.learned.lengths
    if lengths is None:
        return LONGEST_DRAIN_SECONDS
    longest_seconds = LONG_REQUEST * lengths.output_tokens * context.limits.inter_token_latency_seconds
    return min(LONGEST_DRAIN_SECONDS, max(SHORTEST_DRAIN_SECONDS, longest_seconds))
