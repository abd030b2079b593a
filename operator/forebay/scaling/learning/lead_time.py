"""Lead time: how long a replica takes from creation to Ready, learned per service and per warm state.

The warm state has the largest influence: a node with a placeholder already has the image, a ready node has free GPUs,
and a new node has to be added first. Only the last few durations of each state are kept, so a new model or image is
learned soon and memory is bounded.
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
"""With fewer starts the prior is used where it is longer, so that one fast start does not set the lead time."""
CONFIDENCE: Final = 0.95
"""Probability that all replicas that are created together are ready in time (DESIGN §5)."""
USUAL_SPREAD: Final = 0.15
"""Smallest assumed standard deviation of the logarithm of a start's duration."""
LONGEST_SECONDS: Final = 3600
"""A longer start counts as this long; no replica is created further in advance."""


class WarmState(StrEnum):
    """How well a node is prepared for a new replica, the warmest first."""

    PLACEHOLDER_NODE = "PlaceholderNode"
    """A placeholder, a pod of low priority, holds the GPUs, and the node has pulled the image."""
    READY_NODE = "ReadyNode"
    """The node has free GPUs; the image may have to be pulled."""
    NEW_NODE = "NewNode"
    """No node has free GPUs, so one has to be added."""


PRIOR_SECONDS: Final[Mapping[WarmState, float]] = {
    WarmState.PLACEHOLDER_NODE: 120.0,
    WarmState.READY_NODE: 300.0,
    WarmState.NEW_NODE: 420.0,
}
"""Lead times until something has been learned. 120 s: an engine on a node that has the image (llm-d measures 100 to
109 s for 32B on H100). 300 s: DESIGN's value for an unknown start. 420 s: the longest start that the documentation of
the Workload Variant Autoscaler gives (2 to 7 min)."""
_WARMER: Final = {
    state: tuple(other for other in WarmState if PRIOR_SECONDS[other] < PRIOR_SECONDS[state]) for state in WarmState
}


@dataclass(frozen=True, slots=True)
class Start:
    """One replica from creation to Ready. Times are in unix seconds."""

    created_at: float
    scheduled_at: float | None
    """When the last of its pods was scheduled; None when that is unknown."""
    ready_at: float
    state: WarmState

    @property
    def seconds(self) -> float:
        """Time from creation to Ready. Where no node was added, the time before scheduling is left out: the replica
        waited for another one to end, and that says nothing about the next start."""
        waited = self.state is WarmState.READY_NODE and self.scheduled_at is not None
        began = max(self.created_at, self.scheduled_at or 0.0) if waited else self.created_at
        return self.ready_at - began


@dataclass(frozen=True, slots=True)
class LeadTimes:
    """Durations of the starts of one service."""

    starts: Mapping[WarmState, tuple[int, ...]] = field(default_factory=dict)
    """The last durations for each warm state in whole seconds, oldest first."""

    def of(self, state: WarmState) -> tuple[int, ...]:
        return self.starts.get(state, ())

    def quantile_seconds(self, state: WarmState, quantile: float) -> float:
        """Quantile of the observed durations from this state, by the nearest rank, without interpolation.

        While few starts are known, the prior is used where it is longer, and so are the durations from warmer states:
        a start from a colder state is not faster.
        """
        return self._or_prior(state, lambda durations: _nearest_rank(durations, quantile))

    def bound_seconds(self, state: WarmState, quantile: float) -> float:
        """Duration that the next start stays within with this probability.

        It is the quantile of the observed durations, and longer than that where few were observed.
        """
        return self._or_prior(state, lambda durations: _prediction_bound(durations, quantile))

    def _or_prior(self, state: WarmState, estimate: Callable[[Sequence[int]], float]) -> float:
        durations = sorted(self.of(state))
        learned = estimate(durations) if durations else 0.0
        if len(durations) >= ENOUGH_STARTS:
            return learned
        return max(learned, PRIOR_SECONDS[state], *(self._or_prior(other, estimate) for other in _WARMER[state]))


def _nearest_rank(durations: Sequence[int], quantile: float) -> float:
    return float(durations[min(len(durations), ceil(quantile * len(durations) - ROUNDING)) - 1])


def _prediction_bound(durations: Sequence[int], quantile: float) -> float:
    """The prediction bound of a lognormal, exp(mean + z·deviation·√(1 + 1/n)), where the quantile is the longest
    duration.

    Of future starts, n/(n + 1) stay within the longest of n durations: only three of four after three starts.
    """
    number, longest = len(durations), _nearest_rank(durations, quantile)
    if number < ENOUGH_STARTS or longest < durations[-1]:
        return longest
    logarithms = [log(seconds) for seconds in durations]
    mean = fmean(logarithms)
    # statistics.stdev computes with fractions, which is too slow for every tick of every service
    deviation = max(USUAL_SPREAD, sqrt(fsum((logarithm - mean) ** 2 for logarithm in logarithms) / (number - 1)))
    bound = exp(mean + NormalDist().inv_cdf(quantile) * deviation * sqrt(1 + 1 / number))
    return min(float(LONGEST_SECONDS), max(longest, float(ceil(bound))))


def learn(lead_times: LeadTimes, starts: Iterable[Start]) -> LeadTimes:
    """The lead times with these starts added; the same object when there are none. Their order does not matter."""
    ordered = sorted(starts, key=lambda start: (start.ready_at, start.seconds))
    if not ordered:
        return lead_times
    durations = {state: list(lead_times.of(state)) for state in WarmState}
    for start in ordered:
        durations[start.state].append(int(min(max(1.0, round(start.seconds)), LONGEST_SECONDS)))
    return LeadTimes({state: tuple(seconds[-MOST_STARTS:]) for state, seconds in durations.items() if seconds})


@dataclass(frozen=True, slots=True)
class Prospect:
    """The warm states of the next replicas of a service, and the lead times that follow from them."""

    lead_times: LeadTimes = field(default_factory=LeadTimes)
    placeholders: int = 0
    """Replicas for which placeholders hold GPUs."""
    free_places: int = 0
    """Replicas that fit on the free GPUs of ready nodes."""

    def state_of(self, nth: int) -> WarmState:
        """Warm state of the nth of the next replicas. The scheduler takes free GPUs first and preempts a placeholder
        only when there are none."""
        if nth <= self.free_places:
            return WarmState.READY_NODE
        return WarmState.PLACEHOLDER_NODE if nth <= self.free_places + self.placeholders else WarmState.NEW_NODE

    @property
    def lead_seconds(self) -> float:
        """The 95 % quantile of the lead time of the next replica."""
        return self.lead_times.quantile_seconds(self.state_of(1), CONFIDENCE)

    def lead_seconds_for(self, replicas: int) -> float:
        """Time within which all of so many new replicas are ready with a probability of 95 %.

        If one replica is in time with probability p, all k are in time with p^k. So each needs p = 0.95^(1/k)
        (DESIGN §5). The slowest warm state among them counts for all.
        """
        number = max(1, replicas)
        quantile = CONFIDENCE ** (1 / number)
        states = {self.state_of(nth) for nth in (1, self.free_places + 1, number) if nth <= number}
        return max(self.lead_times.bound_seconds(state, quantile) for state in states)
