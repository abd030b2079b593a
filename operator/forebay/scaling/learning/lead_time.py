"""Lead time: how long a replica takes from its creation to Ready, learned per service and by what it starts on.

What a replica starts on decides most: a node held by a placeholder has the image, a ready node has room, and a new node
has to come first. Of each the last few durations are kept, so a model or an image that changes is followed, and nothing
grows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil, exp, fsum, log, sqrt
from statistics import NormalDist, fmean
from typing import Final

from forebay.scaling.decision import ROUNDING

MOST_STARTS: Final = 32
"""Durations kept per warm state: enough for a 95 % quantile that is not simply the largest."""
ENOUGH_STARTS: Final = 3
"""With fewer the prior still stands where it is longer: one lucky start is no rule."""
CONFIDENCE: Final = 0.95
"""With which all replicas that are ordered together are ready in time (DESIGN §5)."""
USUAL_SPREAD: Final = 0.15
"""Standard deviation of the logarithm of a start's time, while what was seen shows no more."""
LONGEST_SECONDS: Final = 3600
"""A longer start counts as this; nothing is ordered further ahead."""


class WarmState(StrEnum):
    """What a replica starts on, the warmest first."""

    PLACEHOLDER_NODE = "PlaceholderNode"
    """A low-priority pod holds the place and has pulled the image."""
    READY_NODE = "ReadyNode"
    """A node with free GPUs; the image may have to be pulled."""
    NEW_NODE = "NewNode"
    """No node has room: one has to be added."""


PRIOR_SECONDS: Final[Mapping[WarmState, float]] = {
    WarmState.PLACEHOLDER_NODE: 120.0,
    WarmState.READY_NODE: 300.0,
    WarmState.NEW_NODE: 420.0,
}
"""Until something is learned. 120 s: an engine on a node that has the image (llm-d measures 100 to 109 s for 32B on
H100). 300 s: DESIGN's value for the unknown. 420 s: the longest that the Workload Variant Autoscaler's documentation
gives for a start (2 to 7 min)."""


@dataclass(frozen=True, slots=True)
class Start:
    """The way of one replica to Ready. Times in unix seconds."""

    created_at: float
    scheduled_at: float | None
    """When the last of its pods got a node; None while nobody says."""
    ready_at: float
    state: WarmState

    @property
    def seconds(self) -> float:
        """From creation to Ready. Time without a place is left out where no node was added: another replica's end made
        room then, and that says nothing of the next start."""
        waited = self.state is WarmState.READY_NODE and self.scheduled_at is not None
        began = max(self.created_at, self.scheduled_at or 0.0) if waited else self.created_at
        return self.ready_at - began


@dataclass(frozen=True, slots=True)
class LeadTimes:
    """What has been learned of one service."""

    starts: Mapping[WarmState, tuple[int, ...]] = field(default_factory=dict)
    """The last durations of each state in whole seconds, oldest first."""

    def of(self, state: WarmState) -> tuple[int, ...]:
        return self.starts.get(state, ())

    def quantile_seconds(self, state: WarmState, quantile: float) -> float:
        """The duration that `quantile` of the starts that were seen from this state kept to; the nearest rank, never in
        between.

        While little is known the prior holds where it is longer, and so does what starts from warmer states took: none
        starts faster with less.
        """
        return self._or_prior(state, lambda seen: _kept_to(seen, quantile))

    def bound_seconds(self, state: WarmState, quantile: float) -> float:
        """What the next start keeps to with this probability: the same, and more where few were seen."""
        return self._or_prior(state, lambda seen: _next_keeps_to(seen, quantile))

    def _or_prior(self, state: WarmState, learned: Callable[[Sequence[int]], float]) -> float:
        seen = sorted(self.of(state))
        found = learned(seen) if seen else 0.0
        if len(seen) >= ENOUGH_STARTS:
            return found
        warmer = (other for other in WarmState if PRIOR_SECONDS[other] < PRIOR_SECONDS[state])
        return max(found, PRIOR_SECONDS[state], *(self._or_prior(other, learned) for other in warmer), 0.0)


def _kept_to(seen: Sequence[int], quantile: float) -> float:
    return float(seen[min(len(seen), ceil(quantile * len(seen) - ROUNDING)) - 1])


def _next_keeps_to(seen: Sequence[int], quantile: float) -> float:
    """The prediction bound of a lognormal, exp(mean + z·deviation·√(1 + 1/n)), where the quantile is the slowest seen.

    The slowest of n is kept to by n/(n + 1) of those that come: by three of four after three starts.
    """
    number, kept_to = len(seen), _kept_to(seen, quantile)
    if number < ENOUGH_STARTS or kept_to < seen[-1]:
        return kept_to
    logarithms = [log(seconds) for seconds in seen]
    mean = fmean(logarithms)
    # statistics.stdev reckons in fractions, which every look at a service would wait for
    deviation = max(USUAL_SPREAD, sqrt(fsum((each - mean) ** 2 for each in logarithms) / (number - 1)))
    bound = exp(mean + NormalDist().inv_cdf(quantile) * deviation * sqrt(1 + 1 / number))
    return min(float(LONGEST_SECONDS), max(kept_to, float(ceil(bound))))


def learn(lead_times: LeadTimes, starts: Iterable[Start]) -> LeadTimes:
    """With these starts; the same object when there are none. Their order does not matter."""
    found = sorted(starts, key=lambda start: (start.ready_at, start.seconds))
    if not found:
        return lead_times
    kept = {state: list(lead_times.of(state)) for state in WarmState}
    for start in found:
        kept[start.state].append(int(min(max(1.0, round(start.seconds)), LONGEST_SECONDS)))
    return LeadTimes({state: tuple(seconds[-MOST_STARTS:]) for state, seconds in kept.items() if seconds})


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the next replicas of a service will start on, and how long that takes."""

    lead_times: LeadTimes = field(default_factory=LeadTimes)
    placeholders: int = 0
    """Replicas whose place a placeholder holds."""
    free_places: int = 0
    """Replicas that ready nodes have room for."""

    def state_of(self, nth: int) -> WarmState:
        """What the nth of the next replicas starts on. The scheduler takes free GPUs first, and the place of a
        placeholder only when there are none."""
        if nth <= self.free_places:
            return WarmState.READY_NODE
        return WarmState.PLACEHOLDER_NODE if nth <= self.free_places + self.placeholders else WarmState.NEW_NODE

    @property
    def lead_seconds(self) -> float:
        """How long the next replica may take, as far as starts were seen."""
        return self.lead_times.quantile_seconds(self.state_of(1), CONFIDENCE)

    def lead_seconds_for(self, replicas: int) -> float:
        """How long before they are needed so many have to be ordered for all of them to be ready with 95 %.

        All k are in time with the probability of one to the power of k, so each needs 0.95^(1/k) (DESIGN §5). The
        slowest state among them counts for all.
        """
        number = max(1, replicas)
        quantile = CONFIDENCE ** (1 / number)
        states = {self.state_of(nth) for nth in (1, self.free_places + 1, number) if nth <= number}
        return max(self.lead_times.bound_seconds(state, quantile) for state in states)
