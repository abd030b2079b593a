"""Patience: creations that fail at once are not repeated at once."""

from collections.abc import Iterable
from typing import Final

from forebay.api.reasons import Reason
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.service_context import ServiceContext
from forebay.scaling.decision import seconds
from forebay.world.world import Refusal

SHORTEST_WAIT_SECONDS: Final = 10.0
LONGEST_WAIT_SECONDS: Final = 300.0
FAILURE_WINDOW_SECONDS: Final = 600.0


def wait_before_creating(context: ServiceContext) -> str:
    """Why nothing is created just now, as a clause: creations that fail at once are not repeated at once.

    The first failure is answered without a wait; from then on each one doubles it, up to 5 minutes.
    """
    memory = context.memory
    if memory.refusals and context.now < memory.refused_at + _wait_seconds(memory.refusals):
        last = _for_lack(context.refusals)[-1]
        return f"the API server refused {last.pod_name}: {last.message} ({last.reason})"
    ended = sorted({f.at for f in memory.failures if f.ended and context.now - f.at < FAILURE_WINDOW_SECONDS})
    wait_seconds = _wait_seconds(len(ended) - 1)
    if ended and context.now < ended[-1] + wait_seconds:
        return (
            f"pods ended soon after they were created, {len(ended)} times; the next ones wait {seconds(wait_seconds)}"
        )
    return ""


def _for_lack(refusals: Iterable[Refusal]) -> list[Refusal]:
    """Without those that only cost a name."""
    return [refusal for refusal in refusals if refusal.reason != Reason.NAME_TAKEN]


def refusals_in_a_row(memory: ServiceMemory, refusals: Iterable[Refusal]) -> tuple[int, float]:
    """How often in a row, and when last: once more per tick with refusals, never once a creation came true."""
    refused = _for_lack(refusals)
    if not refused:
        return 0, 0.0
    again = refused[-1].at > memory.refused_at
    return memory.refusals + again, refused[-1].at


def _wait_seconds(failures: int) -> float:
    if failures < 1:
        return 0.0
    return float(min(LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS * 2.0 ** min(failures - 1, 16)))
