"""Engines behind a router that sends each request to the one with the fewest in flight, as the gateway does.

For whoever asks what so many replicas would have done, with no cluster around them.
"""

from collections.abc import Iterable, Sequence

from forebay.simulation.engine_stats import Completion, Request
from forebay.simulation.replica_engine import ReplicaEngine

_EVER_AFTER_SECONDS = 1e6


def played(engines: Sequence[ReplicaEngine], requests: Iterable[Request]) -> list[Completion]:
    """Of all requests, which come in order of arrival; in order of completion as far as arrivals tell it."""
    done: list[Completion] = []
    now = 0.0
    for request in requests:
        now = request.arrival
        for engine in engines:
            due = engine.next_event_time
            if due is not None and due <= now:
                done += engine.advance(now)
        chosen = min(engines, key=lambda engine: engine.outstanding)
        done += chosen.advance(now)
        chosen.submit(request)
    for engine in engines:
        done += engine.advance(now + _EVER_AFTER_SECONDS)
    return done
