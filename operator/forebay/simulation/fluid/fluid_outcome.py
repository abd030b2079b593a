"""What came of a run of flows: the same figures as of single requests, as far as a flow knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.cluster.served_model import ServedModel
from forebay.simulation.compare.outcome import (
    BATCH,
    INTERACTIVE,
    ClassShare,
    Percentiles,
    Summary,
    Tick,
    changes_per_day,
    possible_lengths,
)
from forebay.simulation.fluid.fluid_counters import FIRST_TOKEN_GRID, TOKEN_GRID
from forebay.simulation.fluid.fluid_gateway import FluidGateway
from forebay.simulation.traffic.flow import Flow
from forebay.simulation.traffic.traces import Floats
from forebay.world.world import ServiceKey


@dataclass(frozen=True, slots=True, eq=False)
class FluidOutcome:
    key: ServiceKey
    seconds: float
    gateway: FluidGateway
    ticks: tuple[Tick, ...]
    gpu_seconds: float
    changes: tuple[tuple[float, int], ...]
    """(time, replicas wanted from then on); the first is where it began."""
    model: ServedModel

    @property
    def trace(self) -> Flow:
        return self.gateway.flow

    @property
    def offered(self) -> int:
        return round(self.gateway.offered)

    def summary(self, promise: Promise) -> Summary:
        """Of the promise that the run was played with; another one cannot be judged afterwards."""
        gateway = self.gateway
        if promise != gateway.fleet.promise:
            raise ValueError(f"a fluid run was played with {gateway.fleet.promise} and cannot be judged by {promise}")
        gone = gateway.finished + gateway.shed + gateway.failed
        lengths = gateway.flow.lengths
        able = possible_lengths(self.model, lengths.prompts, lengths.prompts, lengths.answers, promise)
        return Summary(
            offered=self.offered,
            attainment=gateway.in_time / gateway.offered if gateway.offered else 1.0,
            impossible=float((~able).mean()) if len(able) else 0.0,
            shed=round(gateway.shed),
            failed=round(gateway.failed),
            unfinished=max(0, round(gateway.offered - gone)),
            refused=0,
            time_to_first_token=_percentiles(gateway.fleet.counters.first_tokens(), FIRST_TOKEN_GRID),
            inter_token_latency=_percentiles(gateway.fleet.counters.token_seconds(), TOKEN_GRID),
            gpu_hours=self.gpu_seconds / 3600,
            changes_per_day=changes_per_day(self.changes, self.seconds),
            most_replicas=max((count for _, count in self.changes), default=0),
        )

    def by_class(self, promise: Promise) -> dict[str, ClassShare]:
        """Interactive and batch requests, those of them that there are."""
        gateway = self.gateway
        found = {
            INTERACTIVE: (gateway.offered - gateway.batch_offered, gateway.in_time - gateway.batch_in_time),
            BATCH: (gateway.batch_offered, gateway.batch_in_time),
        }
        return {name: ClassShare(round(asked), kept / asked) for name, (asked, kept) in found.items() if asked >= 0.5}

    def by_tenant(self, promise: Promise) -> tuple[tuple[str, int, int], ...]:
        """A flow does not tell tenants apart."""
        return ()

    def late_first_tokens(self, edges: Sequence[float]) -> list[float]:
        """95 % quantile between any two edges; to the minute, since a flow notes it every minute."""
        times = [0.0, *(at for at, _ in self.gateway.snapshots)]
        counts = [np.zeros(len(FIRST_TOKEN_GRID) + 1), *(seen.astype(float) for _, seen in self.gateway.snapshots)]
        found = []
        for begin, end in pairwise(edges):
            low, high = (min(len(times) - 1, int(np.searchsorted(times, edge))) for edge in (begin, end))
            found.append(_quantile(counts[high] - counts[low], FIRST_TOKEN_GRID, 0.95) if high > low else 0.0)
        return found

    @property
    def mean_running(self) -> float:
        """Sequences in batches, over all replicas and the whole time."""
        return self.gateway.running_seconds / self.seconds


def _percentiles(cumulative: Floats, bounds: Floats) -> Percentiles:
    p50, p95, p99 = (_quantile(cumulative, bounds, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(p50, p95, p99)


def _quantile(cumulative: Floats, bounds: Floats, share: float) -> float:
    """Between the two bounds that hold it."""
    if cumulative[-1] <= 0:
        return 0.0
    return float(np.interp(share * cumulative[-1], cumulative[:-1], bounds))
