"""Traffic as a flow: request counts per step of 2.5 seconds and class of answer length, instead of single requests.

A week of a service has millions of requests but only 241,920 steps, so a flow makes weeks cheap to simulate. The
requests of a step are divided into classes of answer length that hold equally many requests each. Of prompts, the sums
per step and class are kept; a sample of requests represents the spread of lengths. Nothing is smoothed, so bursts are
kept down to one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Final

import numpy as np

from forebay.capacity.model.replica_model import Mix
from forebay.simulation.traffic.traces import SHAPE_SPREAD, Floats, Trace, between, shape_rate, synthetic

BIN_SECONDS: Final = 2.5
"""Length of a step. It divides the planner's interval of 5 s, or arrivals would seem to come in bursts."""
DAY_SECONDS: Final = 86_400.0
CLASSES: Final = 8
SAMPLED_REQUESTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class FlowLengths:
    """Lengths of the requests in a flow: classes of answers, and a sample of requests."""

    edges: tuple[float, ...]
    """Answer lengths in tokens at which the next class begins."""
    outputs: Floats
    """Mean answer of each class, in tokens."""
    prompts: Floats
    """Prompt tokens of the sampled requests."""
    answers: Floats
    """Answer tokens of the sampled requests."""

    @staticmethod
    def of(trace: Trace) -> FlowLengths:
        prompts, answers = trace.prompt_tokens.astype(float), trace.output_tokens.astype(float)
        edges = np.unique(np.quantile(answers, np.arange(1, CLASSES) / CLASSES)) if len(trace) else np.zeros(0)
        edges = edges[edges > answers.min()] if len(trace) else edges
        number = np.searchsorted(edges, answers, side="right")
        means = [answers[number == index].mean() if (number == index).any() else 1.0 for index in range(len(edges) + 1)]
        sampled = np.linspace(0, len(trace) - 1, min(len(trace), SAMPLED_REQUESTS)).astype(np.int64)
        return FlowLengths(tuple(edges.tolist()), np.array(means), prompts[sampled], answers[sampled])

    @property
    def mix(self) -> Mix:
        return Mix.of(list(zip(self.prompts.tolist(), self.answers.tolist(), strict=True)))


@dataclass(frozen=True, eq=False)
class Flow:
    """Offered requests by step. Row t holds the arrivals of the `BIN_SECONDS` that begin at t × `BIN_SECONDS`."""

    name: str
    lengths: FlowLengths
    requests: Floats
    """Number of requests, by [step, class of answer]."""
    prompts: Floats
    """Prompt tokens, by [step, class of answer]."""
    computed: Floats
    """Share of the prompt tokens of each step that had to be computed, because no prefix cache had them."""
    batch: Floats
    """Share of the requests of each step that are batch work."""
    sha256: str = ""
    method: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return len(self.requests) * BIN_SECONDS

    def __len__(self) -> int:
        """The number of requests."""
        return round(float(self.requests.sum()))

    @cached_property
    def mix(self) -> Mix:
        return self.lengths.mix

    def between(self, start: float, end: float) -> Flow:
        """The flow from `start` to `end`, shifted so that it begins at 0."""
        rows = slice(int(start / BIN_SECONDS), int(end / BIN_SECONDS))
        return replace(
            self,
            requests=self.requests[rows],
            prompts=self.prompts[rows],
            computed=self.computed[rows],
            batch=self.batch[rows],
            method=(*self.method, f"from {start:g} s to {end:g} s"),
        )


def flow_of(trace: Trace, seconds: float, lengths: FlowLengths | None = None) -> Flow:
    """A flow of the first `seconds` of a trace. Its classes of answers are those of the trace, unless given."""
    trace = between(trace, 0.0, seconds)
    lengths = lengths or FlowLengths.of(trace)
    rows, classes = int(np.ceil(seconds / BIN_SECONDS)), len(lengths.outputs)
    number = np.searchsorted(lengths.edges, trace.output_tokens, side="right")
    step = (trace.times / BIN_SECONDS).astype(np.int64)
    cell = step * classes + number
    prompt = trace.prompt_tokens.astype(float)
    cached = np.zeros(len(trace)) if trace.cached_tokens is None else trace.cached_tokens.astype(float)
    prompts = np.bincount(cell, prompt, minlength=rows * classes).reshape(rows, classes).astype(float)
    totals = np.maximum(prompts.sum(axis=1), 1.0)
    arrivals = np.maximum(np.bincount(step, minlength=rows), 1)
    return Flow(
        name=trace.name,
        lengths=lengths,
        requests=np.bincount(cell, minlength=rows * classes).reshape(rows, classes).astype(float),
        prompts=prompts,
        computed=1 - np.bincount(step, cached, minlength=rows) / totals,
        batch=np.bincount(step, trace.batch.astype(float), minlength=rows) / arrivals,
        sha256=trace.sha256,
        method=(
            *trace.method[:-1],
            f"requests of each {BIN_SECONDS:g} s together, answers in {classes} classes of length",
        ),
    )


def flow_of_shape(text: str, seconds: float, seed: int, lengths: tuple[float, float]) -> Flow:
    """A flow of a shape that `traces.parse_shape` knows, drawn a day at a time so that weeks fit into memory.

    Raises ValueError.
    """
    rate = shape_rate(text)
    flows: list[Flow] = []
    for number in range(ceil(seconds / DAY_SECONDS)):
        begin = number * DAY_SECONDS
        span = min(DAY_SECONDS, seconds - begin)

        def shifted(times: Floats, begin: float = begin) -> Floats:
            return rate(times + begin)

        drawn = synthetic(text, shifted, span, seed + 1_000 * number, lengths=lengths, spread=SHAPE_SPREAD)
        flows.append(flow_of(drawn, span, flows[0].lengths if flows else None))
    return join_flows(flows)


def requests_of_shape(text: str, seconds: float) -> float:
    """The approximate number of requests that a shape has in `seconds`."""
    times = np.arange(0.0, seconds, 60.0)
    return float(shape_rate(text)(times).mean() * seconds)


def join_flows(flows: Sequence[Flow]) -> Flow:
    """The flows one after the other. All must have been made with the classes of answers of the first."""
    return replace(
        flows[0],
        requests=np.concatenate([flow.requests for flow in flows]),
        prompts=np.concatenate([flow.prompts for flow in flows]),
        computed=np.concatenate([flow.computed for flow in flows]),
        batch=np.concatenate([flow.batch for flow in flows]),
    )
