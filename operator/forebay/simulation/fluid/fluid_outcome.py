"""The outcome of a run with a flow: the figures of a run with single requests, as far as a flow provides them."""

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
    """(time, replicas wanted from then on); the first entry is the initial number."""
    model: ServedModel

    @property
    def trace(self) -> Flow:
        return self.gateway.flow

    @property
    def offered(self) -> int:
        return round(self.gateway.offered)

    def summary(self, promise: Promise) -> Summary:
        """The figures for the promise that the run was simulated with. Raises ValueError for any other promise."""
        gateway = self.gateway
        if promise != gateway.fleet.promise:
            raise ValueError(f"a fluid run was played with {gateway.fleet.promise} and cannot be judged by {promise}")
        ended = gateway.finished + gateway.shed + gateway.failed
        lengths = gateway.flow.lengths
        able = possible_lengths(self.model, lengths.prompts, lengths.prompts, lengths.answers, promise)
        return Summary(
            offered=self.offered,
            attainment=gateway.in_time / gateway.offered if gateway.offered else 1.0,
            impossible=float((~able).mean()) if len(able) else 0.0,
            shed=round(gateway.shed),
            failed=round(gateway.failed),
            unfinished=max(0, round(gateway.offered - ended)),
            refused=0,
            time_to_first_token=_percentiles(gateway.fleet.counters.first_tokens(), FIRST_TOKEN_GRID),
            inter_token_latency=_percentiles(gateway.fleet.counters.token_seconds(), TOKEN_GRID),
            gpu_hours=self.gpu_seconds / 3600,
            changes_per_day=changes_per_day(self.changes, self.seconds),
            most_replicas=max((count for _, count in self.changes), default=0),
        )

    def by_class(self, promise: Promise) -> dict[str, ClassShare]:
        """Interactive and batch requests; a class without requests is left out."""
        gateway = self.gateway
        classes = {
            INTERACTIVE: (gateway.offered - gateway.batch_offered, gateway.in_time - gateway.batch_in_time),
            BATCH: (gateway.batch_offered, gateway.batch_in_time),
        }
        return {
            name: ClassShare(round(offered), kept / offered)
            for name, (offered, kept) in classes.items()
            if offered >= 0.5
        }

    def by_tenant(self, promise: Promise) -> tuple[tuple[str, int, int], ...]:
        """Nothing: a flow does not distinguish tenants."""
        return ()

    def late_first_tokens(self, edges: Sequence[float]) -> list[float]:
        """95 % quantile of the time to the first token between consecutive edges, to the minute of a snapshot."""
        times = [0.0, *(at for at, _ in self.gateway.snapshots)]
        counts = [np.zeros(len(FIRST_TOKEN_GRID) + 1), *(count.astype(float) for _, count in self.gateway.snapshots)]
        quantiles = []
        for begin, end in pairwise(edges):
            low, high = (min(len(times) - 1, int(np.searchsorted(times, edge))) for edge in (begin, end))
            quantiles.append(_quantile(counts[high] - counts[low], FIRST_TOKEN_GRID, 0.95) if high > low else 0.0)
        return quantiles

    @property
    def mean_running(self) -> float:
        """Mean number of sequences in batches, over all replicas and the whole run."""
        return self.gateway.running_seconds / self.seconds


def _percentiles(cumulative: Floats, bounds: Floats) -> Percentiles:
    p50, p95, p99 = (_quantile(cumulative, bounds, share) for share in (0.5, 0.95, 0.99))
    return Percentiles(p50, p95, p99)


def _quantile(cumulative: Floats, bounds: Floats, share: float) -> float:
    """A quantile of a cumulative histogram, interpolated between two bounds."""
    if cumulative[-1] <= 0:
        return 0.0
    return float(np.interp(share * cumulative[-1], cumulative[:-1], bounds))
