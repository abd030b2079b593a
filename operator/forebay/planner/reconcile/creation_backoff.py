"""Creation back-off: after creations that failed, the next ones wait."""

from typing import Final

from forebay.planner.decide.decided_context import DecidedContext
from forebay.planner.observe.failures import FAILURE_WINDOW_SECONDS, refusals_for_capacity
from forebay.scaling.decision import seconds

SHORTEST_WAIT_SECONDS: Final = 10.0
LONGEST_WAIT_SECONDS: Final = 300.0


def wait_before_creating(context: DecidedContext) -> str:
    """Why nothing is created now, as a clause; empty when creations may go ahead.

    A refused creation waits 10 s. A pod that ends soon after its creation is replaced at once the first time, and after
    10 s the second time. Each further failure doubles the wait, up to 5 minutes.
    """
    memory = context.memory
    if memory.refusals and context.now < memory.refused_at + _wait_seconds(memory.refusals):
        last = refusals_for_capacity(context.refusals)[-1]
        return f"the API server refused {last.pod_name}: {last.message} ({last.reason})"
    ended = sorted({f.at for f in memory.failures if f.ended and context.now - f.at < FAILURE_WINDOW_SECONDS})
    wait_seconds = _wait_seconds(len(ended) - 1)
    if ended and context.now < ended[-1] + wait_seconds:
        return (
            f"pods ended soon after their creation, {len(ended)} times; the next creation waits {seconds(wait_seconds)}"
        )
    return ""


def _wait_seconds(failures: int) -> float:
    if failures < 1:
        return 0.0
    return float(min(LONGEST_WAIT_SECONDS, SHORTEST_WAIT_SECONDS * 2.0 ** min(failures - 1, 16)))
