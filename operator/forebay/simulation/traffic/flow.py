"""Traffic as a flow: what came in each step of 2.5 seconds, by length of answer, instead of single requests.

A week of a service has millions of requests and 302,400 steps. Requests of a step are told apart by the length of their
answer, in classes that hold equally many each; of their prompts the sums are kept, and a sample of the requests
themselves stands for their spread. Nothing is smoothed: a burst of a step is a burst of a step.
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
"""So many whole ones between two looks of the planner, or the steps themselves would seem to come in bursts."""
DAY_SECONDS: Final = 86_400.0
CLASSES: Final = 8
SAMPLED_REQUESTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class FlowLengths:
    """What requests look like: the classes of answers, and requests that stand for all."""

    edges: tuple[float, ...]
    """Answer tokens at which the next class begins."""
    outputs: Floats
    """Mean answer of each class, in tokens."""
    prompts: Floats
    """Of sampled requests, in tokens."""
    answers: Floats
    """Of the same."""

    @staticmethod
    def of(trace: Trace) -> FlowLengths:
        prompts, answers = trace.prompt_tokens.astype(float), trace.output_tokens.astype(float)
        edges = np.unique(np.quantile(answers, np.arange(1, CLASSES) / CLASSES)) if len(trace) else np.zeros(0)
        edges = edges[edges > answers.min()] if len(trace) else edges
        number = np.searchsorted(edges, answers, side="right")
        means = [answers[number == each].mean() if (number == each).any() else 1.0 for each in range(len(edges) + 1)]
        chosen = np.linspace(0, len(trace) - 1, min(len(trace), SAMPLED_REQUESTS)).astype(np.int64)
        return FlowLengths(tuple(edges.tolist()), np.array(means), prompts[chosen], answers[chosen])

    @property
    def mix(self) -> Mix:
        return Mix.of(list(zip(self.prompts.tolist(), self.answers.tolist(), strict=True)))


@dataclass(frozen=True, eq=False)
class Flow:
    """Offered requests by step. Row t holds what came in the `BIN_SECONDS` from t × `BIN_SECONDS` on."""

    name: str
    lengths: FlowLengths
    requests: Floats
    """[step, class of answer]."""
    prompts: Floats
    """Prompt tokens, [step, class of answer]."""
    computed: Floats
    """Share of the prompt tokens of each step that no prefix cache spared."""
    batch: Floats
    """Share of the requests of each step that are batch work."""
    sha256: str = ""
    method: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return len(self.requests) * BIN_SECONDS

    def __len__(self) -> int:
        """How many requests are in it."""
        return round(float(self.requests.sum()))

    @cached_property
    def mix(self) -> Mix:
        return self.lengths.mix

    def between(self, start: float, end: float) -> Flow:
        """Of that span, which begins at 0."""
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
    """The first so many seconds of a trace; classes of answers from the trace itself unless given."""
    trace = between(trace, 0.0, seconds)
    lengths = lengths or FlowLengths.of(trace)
    rows, classes = int(np.ceil(seconds / BIN_SECONDS)), len(lengths.outputs)
    number = np.searchsorted(lengths.edges, trace.output_tokens, side="right")
    step = (trace.times / BIN_SECONDS).astype(np.int64)
    cell = step * classes + number
    prompt = trace.prompt_tokens.astype(float)
    spared = np.zeros(len(trace)) if trace.cached_tokens is None else trace.cached_tokens.astype(float)
    prompts = np.bincount(cell, prompt, minlength=rows * classes).reshape(rows, classes).astype(float)
    totals = np.maximum(prompts.sum(axis=1), 1.0)
    came = np.maximum(np.bincount(step, minlength=rows), 1)
    return Flow(
        name=trace.name,
        lengths=lengths,
        requests=np.bincount(cell, minlength=rows * classes).reshape(rows, classes).astype(float),
        prompts=prompts,
        computed=1 - np.bincount(step, spared, minlength=rows) / totals,
        batch=np.bincount(step, trace.batch.astype(float), minlength=rows) / came,
        sha256=trace.sha256,
        method=(
            *trace.method[:-1],
            f"requests of each {BIN_SECONDS:g} s together, answers in {classes} classes of length",
        ),
    )


def flow_of_shape(text: str, seconds: float, seed: int, lengths: tuple[float, float]) -> Flow:
    """A shape as `traces.parse_shape` draws it, a day at a time so that weeks fit into memory. Raises ValueError."""
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
    """How many it has, about."""
    times = np.arange(0.0, seconds, 60.0)
    return float(shape_rate(text)(times).mean() * seconds)


def join_flows(flows: Sequence[Flow]) -> Flow:
    """One after the other; the classes of answers are those of the first, which all have been made with."""
    return replace(
        flows[0],
        requests=np.concatenate([flow.requests for flow in flows]),
        prompts=np.concatenate([flow.prompts for flow in flows]),
        computed=np.concatenate([flow.computed for flow in flows]),
        batch=np.concatenate([flow.batch for flow in flows]),
    )
