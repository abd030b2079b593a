"""Runs of a closed loop under the production planner, and what users would have seen of them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebay.cli.explain.explain_service import explanation
from forebay.cli.service_reading import ServiceReading
from forebay.simulation.cluster.closed_loop import ClosedLoop
from forebay.simulation.cluster.cold_start import NodePool
from forebay.simulation.cluster.planner_control import PlannerControl
from forebay.simulation.compare.outcome import RunOutcome
from forebay.simulation.traffic.traces import Rate
from forebay.world.settings import Settings
from tests.simulation.loops import CHAT, PROMISE, a_loop

_NUMBER = r"[0-9.]+"
_WORDS = ".{0,200}?"
LENGTHS = (6000, 1000)
"""Prompt and answer tokens. An 8B model on an H100 serves only 1.7 such requests a second within 40 ms per token, so
runs have few requests."""


@dataclass
class Story:
    loop: ClosedLoop
    control: PlannerControl
    done: RunOutcome
    explained: dict[float, str] = field(default_factory=dict)
    """What `forebay explain` would have said at the asked seconds, as one line."""

    def wanted(self, since: float = 0.0, until: float = 1e9) -> list[int]:
        return [tick.desired for tick in self.done.ticks if since <= tick.at <= until]

    def serving(self, since: float = 0.0, until: float = 1e9) -> list[int]:
        return [tick.serving for tick in self.done.ticks if since <= tick.at <= until]

    def need(self, since: float, until: float) -> float:
        """Mean of the true need."""
        need = self.done.need(PROMISE)
        return float(np.mean([n for n, tick in zip(need, self.done.ticks, strict=True) if since <= tick.at <= until]))

    def in_time(self, since: float, until: float = 1e9) -> float:
        """Share of the requests arriving in the time span that were in time."""
        arrived = self.done.trace.times[: self.done.offered]
        return float(self.done.in_time(PROMISE)[(arrived >= since) & (arrived < until)].mean())

    def unsaid(self, at: float, *phrases: str) -> list[str]:
        """The phrases that the explanation at that second lacks.

        `#` in a phrase stands for any number, `…` for any words.
        """
        text = self.explained[at]
        return [phrase for phrase in phrases if re.search(_pattern(phrase), text) is None]

    def rules(self) -> set[str]:
        return {decision.rule for decision in self.control.decisions}

    def reasons(self) -> set[str]:
        return {event.reason for event in self.control.events}


def play(
    rate: Rate,
    seconds: float,
    *,
    after: float = 120.0,
    settings: Settings | None = None,
    prepare: Callable[[ClosedLoop], object] = id,
    ask: Sequence[float] = (),
    **given: Any,
) -> Story:
    """Run traffic for `seconds`, then `after` seconds without, so that all requests can end.

    The explanation of each second in `ask` is kept.
    """
    control = PlannerControl(settings)
    fields: dict[str, Any] = {"lengths": LENGTHS, "max_replicas": 100, "pools": (NodePool(nodes=13),)} | given
    loop = a_loop(rate, seconds, control=control, **fields)
    prepare(loop)
    explained: dict[float, str] = {}
    for at in ask:
        loop.at(at, lambda at_then: explained.update({at_then.timeline.now: _explained(at_then)}))
    done = loop.run(seconds + after)[CHAT]
    assert not control.errors
    return Story(loop, control, done, explained)


def _pattern(phrase: str) -> str:
    pattern = re.escape(phrase).replace(r"\#", _NUMBER)
    return pattern.replace(r"\ …\ ", rf"(?=\W){_WORDS}\ ").replace("…", _WORDS)


def _explained(loop: ClosedLoop) -> str:
    service = loop.cluster.services[CHAT]
    reading = ServiceReading(CHAT.namespace, CHAT.name, service.generation, service.spec, service.status)
    return " ".join(" ".join(explanation(reading, loop.cluster.wall_time)).split())
