"""Engines behind a router that sends each request to the engine with the fewest in flight, as the gateway does.

It answers what a given number of replicas would do with given requests, without simulating a cluster.
"""

from collections.abc import Iterable, Sequence

from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import ReplicaEngine

_LONG_ENOUGH_SECONDS = 1e6


def play_requests(engines: Sequence[ReplicaEngine], requests: Iterable[EngineRequest]) -> list[Completion]:
    """The completions of all requests, which must come in order of arrival.

    Completions are collected at each arrival, so they are in order of completion only between two arrivals.
    """
    done: list[Completion] = []
    for request in requests:
        done += route(engines, request)
    return done + finish_all(engines)


def route(engines: Sequence[ReplicaEngine], request: EngineRequest) -> list[Completion]:
    """Submit a request at its arrival time; return the requests that had finished by then."""
    done: list[Completion] = []
    now = request.arrival
    for engine in engines:
        next_event = engine.next_event_time
        if next_event is not None and next_event <= now:
            done += engine.advance(now)
    least_busy = min(engines, key=lambda engine: engine.outstanding)
    done += least_busy.advance(now)
    least_busy.submit(request)
    return done


def finish_all(engines: Sequence[ReplicaEngine]) -> list[Completion]:
    """Let the engines finish all their requests; nothing more arrives."""
    now = max((engine.now for engine in engines), default=0.0)
    return [completion for engine in engines for completion in engine.advance(now + _LONG_ENOUGH_SECONDS)]
