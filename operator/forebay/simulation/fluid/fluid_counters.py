"""vLLM's counters and histograms for replicas that are simulated as fluids, from which scrapes are made.

A fluid has fractions of requests, but a scrape shows whole ones. The numbers are rounded so that
arrived = finished + running + waiting at every moment, as with vLLM. The work of a step is stored and counted into
histograms only when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from forebay.scaling.load.signals import EngineSample, HistogramSample
from forebay.simulation.engine.histogram import FIRST_TOKEN_BOUNDS, INTER_TOKEN_BOUNDS, REQUEST_BOUNDS
from forebay.simulation.fluid.fluid_latency import normal_cdf
from forebay.simulation.traffic.traces import Floats

FIRST_TOKEN_GRID: Final = np.unique(np.concatenate([np.array(FIRST_TOKEN_BOUNDS), np.geomspace(0.005, 640.0, 90)]))
"""Bounds of the fine histogram of times to the first token, for quantiles. They include vLLM's own bounds."""
TOKEN_GRID: Final = np.geomspace(0.001, 10.0, 400)
"""Bounds of the fine histogram of requests' mean times between tokens."""
MAX_UNCOUNTED_STEPS: Final = 30
"""How many steps are stored before they are counted."""
_FIRST_TOKEN_INDEX: Final = np.array([*np.searchsorted(FIRST_TOKEN_GRID, FIRST_TOKEN_BOUNDS), -1])
_LOG_FIRST_TOKEN_GRID: Final = np.log(FIRST_TOKEN_GRID)
_INTER_TOKEN_BOUNDS: Final = np.array(INTER_TOKEN_BOUNDS)
_REQUEST_BOUNDS: Final = np.array(REQUEST_BOUNDS)
_TOKEN_GRID_START: Final = float(np.log(TOKEN_GRID[0]))
_TOKEN_GRID_STEP: Final = float(np.log(TOKEN_GRID[1] / TOKEN_GRID[0]))
_NORMAL_FIFTHS: Final = np.array([-1.2816, -0.5244, 0.0, 0.5244, 1.2816])
"""The medians of the fifths of a normal distribution, in standard deviations."""
_INFINITE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step of a fluid, by row; times in seconds."""

    admitted: Floats
    """Requests that entered the batch."""
    wait: Floats
    """How long the admitted requests waited until the step that computes their prompts."""
    median: Floats
    """Logarithm of the median time from then to the first token."""
    deviation: Floats
    """Standard deviation of that logarithm."""
    steps: Floats
    """Engine steps."""
    base: Floats
    """Duration of a decode-only engine step."""
    sequences: Floats
    """Mean number of sequences in the batch."""
    prefilled: Floats
    """Computed prompt tokens."""
    ended: Floats
    """Requests that ended."""
    ended_share: Floats
    """Share of the sequences in the batch that ended."""
    ended_prompts: Floats
    """Prompt tokens of the requests that ended."""
    ended_outputs: Floats
    """Answer tokens of the requests that ended."""
    ended_by_class: Floats
    """Requests that ended, by class of answer."""
    token_seconds: Floats
    """Mean time between tokens of the requests that ended, by class of answer."""
    token_deviation: Floats
    """Standard deviation of that time's logarithm."""


class FluidCounters:
    """Counters by row. They only grow until the row is freed. Histograms are cumulative."""

    def __init__(self, step_seconds: float, prompt_seconds: Floats) -> None:
        self._seconds = step_seconds
        self._prompt_seconds = prompt_seconds
        """Quantiles of the time that a prompt adds to the engine step that computes it."""
        self._uncounted: list[StepWork] = []
        self._cached_rows: tuple[list[list[float]], ...] | None = None
        self._all_first = np.zeros(len(FIRST_TOKEN_GRID) + 1)
        self._all_tokens = np.zeros(len(TOKEN_GRID) + 1)
        self._rows: dict[str, Floats] = {
            "totals": np.zeros((0, len(_TOTALS))),
            "first": np.zeros((0, len(FIRST_TOKEN_GRID) + 1)),
            "token": np.zeros((0, len(INTER_TOKEN_BOUNDS) + 1)),
            "queued": np.zeros((0, len(REQUEST_BOUNDS) + 1)),
            "pool": np.zeros((0, len(REQUEST_BOUNDS) + 2)),
        }
        """`pool` holds the histogram and sum of the waits of running requests; vLLM counts a wait when its request
        finishes."""

    def add_row(self) -> None:
        self.count()
        self._cached_rows = None
        self._rows = {name: np.concatenate([a, np.zeros((1, a.shape[1]))]) for name, a in self._rows.items()}

    def clear_row(self, row: int) -> None:
        self.count()
        self._cached_rows = None
        for array in self._rows.values():
            array[row] = 0.0

    def preempted(self, requests: Floats) -> None:
        self._rows["totals"][:, _TOTALS.index("preemptions")] += requests
        self._cached_rows = None

    def note(self, worked: StepWork) -> None:
        self._uncounted.append(worked)
        self._cached_rows = None
        if len(self._uncounted) >= MAX_UNCOUNTED_STEPS:
            self.count()

    def first_tokens(self) -> Floats:
        """Times to the first token of the whole fleet and run, cumulative over `FIRST_TOKEN_GRID`; the last is all."""
        self.count()
        return self._all_first

    def token_seconds(self) -> Floats:
        """Finished requests of the whole fleet and run by their mean time between tokens, cumulative."""
        self.count()
        return np.cumsum(self._all_tokens)

    def count(self) -> None:
        """Count all stored steps."""
        if not self._uncounted:
            return
        steps, self._uncounted = self._uncounted, []
        columns = {name: np.array([getattr(step, name) for step in steps]) for name in _COLUMNS}
        self._count_first(columns)
        self._count_tokens(columns)
        self._count_waits(columns)
        self._count_ended(columns)

    def sample(
        self, row: int, taken_at: float, arrived: float, waiting: float, kv: float, kv_tokens: int
    ) -> EngineSample:
        """The sample that a scrape of the replica in `row` gives."""
        if self._cached_rows is None:
            self.count()
            rows = self._rows
            tables = (rows["totals"], rows["first"][:, _FIRST_TOKEN_INDEX], rows["token"], rows["queued"])
            self._cached_rows = tuple(np.floor(array + 1e-9).tolist() for array in tables)
        totals, first, token, queued = (table[row] for table in self._cached_rows)
        totals_by_name = dict(zip(_TOTALS, totals, strict=True))
        sums = self._rows["totals"][row, -3:].tolist()
        taken, finished = float(int(arrived)), totals_by_name["finished"]
        wait = max(0.0, min(float(round(waiting)), taken - finished))
        return EngineSample(
            taken_at=taken_at,
            running_requests=max(0.0, taken - finished - wait),
            waiting_requests=wait,
            kv_fraction=min(1.0, kv),
            engine_steps=totals_by_name["steps"],
            prompt_tokens=totals_by_name["prompts"],
            generation_tokens=totals_by_name["generated"],
            finished_requests=finished,
            finished_prompt_tokens=totals_by_name["finished_prompts"],
            finished_output_tokens=totals_by_name["finished_outputs"],
            rejected_requests=0.0,
            preemptions=totals_by_name["preemptions"],
            time_to_first_token=HistogramSample((*FIRST_TOKEN_BOUNDS, _INFINITE), tuple(first), sums[0]),
            inter_token_latency=HistogramSample((*INTER_TOKEN_BOUNDS, _INFINITE), tuple(token), sums[1]),
            queue_time=HistogramSample((*REQUEST_BOUNDS, _INFINITE), tuple(queued), sums[2]),
            kv_cache_tokens=kv_tokens,
        )

    def _add(self, name: str, values: Floats) -> None:
        self._rows["totals"][:, _TOTALS.index(name)] += values.sum(axis=0)

    def _count_first(self, of: dict[str, Floats]) -> None:
        """Count times to the first token: a wait plus a log-normal time."""
        count, wait, median, deviation = of["admitted"], of["wait"], of["median"], of["deviation"]
        logs = np.log(np.maximum(FIRST_TOKEN_GRID - wait[..., None], 1e-9)) if wait.any() else _LOG_FIRST_TOKEN_GRID
        share = normal_cdf((logs - median[..., None]) / deviation[..., None])
        within = (count[..., None] * share).sum(axis=0)
        first = self._rows["first"]
        first[:, :-1] += within
        first[:, -1] += count.sum(axis=0)
        self._all_first[:-1] += within.sum(axis=0)
        self._all_first[-1] += count.sum()
        self._add("first_sum", count * (wait + np.exp(median + deviation**2 / 2)))

    def _count_tokens(self, of: dict[str, Floats]) -> None:
        """Count times between tokens: a decode-only step takes `base` seconds, a step with a prompt takes longer."""
        steps, base, sequences, admitted = of["steps"], of["base"], of["sequences"], of["admitted"]
        tokens = steps * sequences
        with_prompt = 1 - np.exp(-admitted / steps)
        longer = (base[..., None, None] + self._prompt_seconds[:, None] <= _INTER_TOKEN_BOUNDS).mean(axis=-2)
        share = np.where(base[..., None] <= _INTER_TOKEN_BOUNDS, 1 + with_prompt[..., None] * (longer - 1), 0.0)
        token = self._rows["token"]
        token[:, :-1] += (tokens[..., None] * share).sum(axis=0)
        token[:, -1] += tokens.sum(axis=0)
        self._add("token_sum", sequences * self._seconds)
        self._add("steps", steps * (1 - np.exp(-sequences - admitted)))
        self._add("generated", tokens + admitted)
        self._add("prompts", of["prefilled"])

    def _count_waits(self, of: dict[str, Floats]) -> None:
        """Count the queue times of requests that finish, by the distribution of the waits of all running requests."""
        pool, queued = self._rows["pool"], self._rows["queued"]
        waits = of["wait"] + self._seconds / of["steps"] / 2
        within = waits[..., None] <= _REQUEST_BOUNDS
        for admitted, wait, fits, share in zip(of["admitted"], waits, within, of["ended_share"], strict=True):
            pool[:, :-2] += admitted[:, None] * fits
            pool[:, -2] += admitted
            pool[:, -1] += admitted * wait
            finished = pool * share[:, None]
            pool -= finished
            queued += finished[:, :-1]
            self._rows["totals"][:, -1] += finished[:, -1]

    def _count_ended(self, of: dict[str, Floats]) -> None:
        self._add("finished", of["ended"])
        self._add("finished_prompts", of["ended_prompts"])
        self._add("finished_outputs", of["ended_outputs"])
        means = np.log(of["token_seconds"])[..., None] + of["token_deviation"][..., None] * _NORMAL_FIFTHS
        cell = np.clip((means - _TOKEN_GRID_START) / _TOKEN_GRID_STEP + 1, 0, len(TOKEN_GRID)).astype(np.int64)
        fifths = np.repeat(of["ended_by_class"].ravel() / len(_NORMAL_FIFTHS), len(_NORMAL_FIFTHS))
        self._all_tokens += np.bincount(cell.ravel(), fifths, minlength=len(TOKEN_GRID) + 1)


_COLUMNS: Final = tuple(StepWork.__dataclass_fields__)
_TOTALS: Final = (
    *("finished", "finished_prompts", "finished_outputs", "prompts", "generated", "steps", "preemptions"),
    *("first_sum", "token_sum", "queued_sum"),
)
