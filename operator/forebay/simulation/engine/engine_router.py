"""Engines behind a router that sends each request to the one with the fewest in flight, as the gateway does.

For whoever asks what so many replicas would have done, with no cluster around them.
"""

from collections.abc import Iterable, Sequence

from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import ReplicaEngine

_EVER_AFTER_SECONDS = 1e6


def played(engines: Sequence[ReplicaEngine], requests: Iterable[EngineRequest]) -> list[Completion]:
    """Of all requests, which come in order of arrival; in order of completion as far as arrivals tell it."""
    done: list[Completion] = []
    for request in requests:
        done += routed(engines, request)
    return done + finished(engines)


def routed(engines: Sequence[ReplicaEngine], request: EngineRequest) -> list[Completion]:
    """It has arrived and is on its way; what had finished by then."""
    done: list[Completion] = []
    now = request.arrival
    for engine in engines:
        due = engine.next_event_time
        if due is not None and due <= now:
            done += engine.advance(now)
    chosen = min(engines, key=lambda engine: engine.outstanding)
    done += chosen.advance(now)
    chosen.submit(request)
    return done


def finished(engines: Sequence[ReplicaEngine]) -> list[Completion]:
    """What was left to do is done; nothing more arrives."""
    now = max((engine.now for engine in engines), default=0.0)
    return [done for engine in engines for done in engine.advance(now + _EVER_AFTER_SECONDS)]
