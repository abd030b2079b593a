"""One pod of a simulated cluster: its object in the API server, and the engine that runs in it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any, Protocol

from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.engine.engine_stats import Completion, EngineRequest
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.world.world import PodView


class SimulatedEngine(Protocol):
    """The part of an engine that the cluster model uses; a discrete-event engine and a fluid both have it."""

    @property
    def now(self) -> float: ...

    @property
    def running(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def outstanding(self) -> int: ...

    @property
    def kv_fraction(self) -> float: ...

    @property
    def next_event_time(self) -> float | None: ...

    def advance(self, until: float) -> list[Completion]: ...


class SimulatedReplica:
    """A pod and its engine. The engine is advanced lazily, since no request of it can end before its next event."""

    __slots__ = ("avoid", "deadline", "done", "engine", "gone_at", "model", "next_event", "number", "placed_at",
                 "view")  # fmt: skip

    def __init__(self, view: PodView, model: ServedModel, number: int, avoid: frozenset[str] = frozenset()) -> None:
        self.view = view
        self.model = model
        self.number = number
        """Order of creation in the whole run."""
        self.avoid = avoid
        """Names of nodes that the pod must not be placed on."""
        self.engine: SimulatedEngine | None = None
        self.next_event = inf
        """The earliest time at which a request of the engine can end."""
        self.done: list[Completion] = []
        """Completions that the gateway has not collected yet."""
        self.placed_at: float | None = None
        self.gone_at: float | None = None
        self.deadline = inf
        """When the pod is killed; infinite until it is being deleted."""

    @property
    def outstanding(self) -> int:
        return 0 if self.engine is None else self.engine.outstanding

    @property
    def in_rotation(self) -> bool:
        view = self.view
        return view.ready and view.serving and not view.deleting and self.engine is not None

    @property
    def loading(self) -> bool:
        """Whether the pod is not ready yet and neither draining nor being deleted."""
        view = self.view
        return not view.ready and not view.deleting and view.drain_started_at is None

    def change(self, **fields: Any) -> None:
        """Change fields of the object."""
        self.store(replace(self.view, **fields))

    def store(self, changed: PodView) -> None:
        """Replace the object; it gets a new resourceVersion unless nothing changed."""
        if changed != self.view:
            self.view = replace(changed, resource_version=str(int(self.view.resource_version) + 1))

    def start_engine(self, engine: SimulatedEngine, now: float) -> None:
        """Start an engine with empty counters."""
        self.engine = engine
        self.engine.advance(now)
        self.next_event = inf

    def submit(self, request: EngineRequest) -> None:
        engine = self.engine
        assert isinstance(engine, ReplicaEngine)
        engine.submit(request)
        self.next_event = engine.next_event_time or inf

    def advance(self, now: float) -> None:
        """Advance the engine to `now`."""
        engine = self.engine
        if engine is not None and engine.now < now:
            self.done += engine.advance(now)
            self.next_event = engine.next_event_time or inf
