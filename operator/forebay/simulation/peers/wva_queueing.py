"""WVA's queueing model: a state-dependent queue per replica, whose coefficients a Kalman filter estimates.

Rules: llm-d/llm-d-workload-variant-autoscaler `queueanalyzer.go` and `docs/parameter-estimation.md`.
"""

from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from forebay.simulation.peers.peer_view import PeerView

WAITING_PER_SLOT = 10
"""Length of the modelled queue, as a multiple of the largest batch."""
BISECTIONS = 24


@dataclass(frozen=True, slots=True)
class Coefficients:
    """A step with n sequences takes `alpha + n·(beta·(I + O)/(O + 1) + gamma·(I + O/2))` seconds.

    I is the prompt and O the answer of a request, in tokens.
    """

    alpha: float
    beta: float
    gamma: float

    def step_seconds(self, n: float, prompt: float, output: float) -> float:
        return self.alpha + n * (self.beta * (prompt + output) / (output + 1) + self.gamma * (prompt + output / 2))


@dataclass(frozen=True, slots=True)
class QueueEstimate:
    first_token_seconds: float
    inter_token_seconds: float


def expected_latency(rate: float, model: Coefficients, prompt: float, output: float, max_batch: int) -> QueueEstimate:
    """Latencies of one replica at `rate` requests a second and at most `max_batch` sequences: a birth-death chain."""
    states = np.arange(1, max_batch * (1 + WAITING_PER_SLOT) + 1, dtype=float)
    batch = np.minimum(states, max_batch)
    step = model.alpha + batch * (model.beta * (prompt + output) / (output + 1) + model.gamma * (prompt + output / 2))
    served = batch / ((output + 1) * step)
    log_weights = np.concatenate(([0.0], np.cumsum(np.log(rate / served))))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    working = float(weights[1:] @ batch)
    through = float(weights[1:] @ served)
    queued = float(weights[1:] @ (states - batch))
    inter_token = model.step_seconds(working, prompt, output)
    wait = queued / through if through > 0 else 0.0
    return QueueEstimate(wait + inter_token + model.beta * prompt, inter_token)


@dataclass(slots=True)
class QueueingAnalyzer:
    """Wants as many replicas as serve the arrivals, each at the largest rate that keeps both promises."""

    start: Coefficients
    first_token_seconds: float = 0.5
    inter_token_seconds: float = 0.04
    max_num_seqs: int = 256
    process_noise: float = 1e-3
    """Standard deviation of a coefficient's drift per filter step, relative to the coefficient."""
    observation_noise: float = 0.05
    _state: NDArray[np.float64] = field(init=False)
    _covariance: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._state = np.array([self.start.alpha, self.start.beta, self.start.gamma])
        self._covariance = np.diag((0.2 * self._state) ** 2)

    @property
    def model(self) -> Coefficients:
        return Coefficients(*(float(value) for value in self._state))

    def proposal(self, view: PeerView) -> int:
        prompt, output = view.prompt_tokens, view.output_tokens
        if not view.ready or output <= 0 or view.requests_per_second <= 0:
            return view.wanted
        self._observe(view)
        rate = self._largest_rate(prompt, output)
        return max(1, ceil(view.requests_per_second / rate - 1e-9)) if rate > 0 else view.wanted

    def _observe(self, view: PeerView) -> None:
        """One Kalman step for each replica that has a measured time between tokens."""
        prompt, output = view.prompt_tokens, view.output_tokens
        for replica in view.ready:
            if replica.inter_token_seconds is None or replica.running < 1:
                continue
            n = replica.running
            row = np.array([1.0, n * (prompt + output) / (output + 1), n * (prompt + output / 2)])
            self._covariance += np.diag((self.process_noise * self._state) ** 2)
            noise = (self.observation_noise * replica.inter_token_seconds) ** 2
            gain = self._covariance @ row / (row @ self._covariance @ row + noise)
            moved = self._state + gain * (replica.inter_token_seconds - row @ self._state)
            self._covariance = self._covariance - np.outer(gain, row) @ self._covariance
            self._state = np.maximum(moved, 1e-3 * np.abs(self._state))

    def _largest_rate(self, prompt: float, output: float) -> float:
        model = self.model
        max_batch = self.max_num_seqs
        low, high = 0.0, max_batch / ((output + 1) * model.step_seconds(max_batch, prompt, output))
        for _ in range(BISECTIONS):
            rate = (low + high) / 2
            latency = expected_latency(rate, model, prompt, output, max_batch)
            kept = (
                latency.first_token_seconds <= self.first_token_seconds
                and latency.inter_token_seconds <= self.inter_token_seconds
            )
            low, high = (rate, high) if kept else (low, rate)
        return low
