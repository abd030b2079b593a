"""Fits the coefficients of an engine's step time to observed steps, by least squares.

Requests of one length cannot separate the cost of prompts, sequences and KV reads, because all three grow together. The
fit therefore starts from a prior (a built-in profile or a roofline estimate) with a small weight: the prior decides
where the observations do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

from forebay.capacity.model.engine_profile import EngineProfile

COEFFICIENTS: Final = ("step_seconds", "prompt_token_seconds", "sequence_seconds", "kv_token_seconds")
PRIOR_WEIGHT: Final = 1e-4
"""Weight of the prior: of a coefficient that is off by its own size, relative to an observation off by its own size."""
SMALLEST_FACTOR: Final = 0.01
"""Smallest ratio of a coefficient to its prior: a step takes time, and work is never free."""
SMALLEST_DISTINCT_SHARE: Final = 0.02
"""The observations determine a coefficient if its term varies independently of the other terms by this share of a
step."""


class FitError(ValueError):
    """The reason why there is nothing to fit, as one sentence."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Mean values over some steps of one engine."""

    seconds: float
    """Time of the step, or any other time that is a sum of the same terms."""
    prompt_tokens: float
    sequences: float
    kv_tokens: float
    steps: float = 1.0
    """Number of steps whose fixed time the observation includes."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted coefficients, and how well they match the observations."""

    profile: EngineProfile
    observations: int
    mean_error: float
    """Root of the mean squared relative error."""
    largest_error: float
    determined: tuple[str, ...]
    """Coefficients that the observations determine; the others are scaled priors."""


def fit(observations: Sequence[Observation], prior: EngineProfile) -> Fit:
    """The coefficients that match the observations best. Raises FitError if no observation has a step time."""
    usable = [observation for observation in observations if observation.seconds > 0]
    if not usable:
        raise FitError("no observation has a step time above 0")
    factors = _factors(usable, prior)
    profile = replace(
        prior,
        **{name: getattr(prior, name) * factor for name, factor in zip(COEFFICIENTS, factors, strict=True)},
    )
    errors = [predicted(profile, observation) / observation.seconds - 1 for observation in usable]
    return Fit(
        profile=profile,
        observations=len(usable),
        mean_error=sqrt(sum(error**2 for error in errors) / len(errors)),
        largest_error=max((abs(error) for error in errors), default=0.0),
        determined=tuple(_determined(usable, prior)),
    )


def predicted(profile: EngineProfile, observation: Observation) -> float:
    """The seconds that the profile predicts for an observation."""
    return sum(_terms(profile, observation))


def _terms(profile: EngineProfile, observation: Observation) -> tuple[float, float, float, float]:
    return (
        profile.step_seconds * observation.steps,
        profile.prompt_token_seconds * observation.prompt_tokens,
        profile.sequence_seconds * observation.sequences,
        profile.kv_token_seconds * observation.kv_tokens,
    )


def _factors(observations: Sequence[Observation], prior: EngineProfile) -> list[float]:
    """The ratio of each coefficient to its prior. Factors that would fall below the smallest are fixed there, one after
    the other."""
    rows = [
        ([term / observation.seconds for term in _terms(prior, observation)], observation.weight)
        for observation in observations
    ]
    fixed: dict[int, float] = {}
    while True:
        factors = _solve(rows, fixed)
        low = [index for index, factor in enumerate(factors) if factor < SMALLEST_FACTOR and index not in fixed]
        if not low:
            return factors
        fixed[min(low, key=lambda index: factors[index])] = SMALLEST_FACTOR


def _solve(rows: Sequence[tuple[list[float], float]], fixed: dict[int, float]) -> list[float]:
    """Solves the normal equations of `Σ w·(1 − Σ m·z)² + PRIOR_WEIGHT·Σw·Σ (m − 1)²` for the factors m.

    w is the weight of an observation, and z are its terms by the prior, as shares of the observed seconds. `fixed` are
    factors with a given value.
    """
    free = [index for index in range(len(COEFFICIENTS)) if index not in fixed]
    prior_weight = PRIOR_WEIGHT * sum(weight for _, weight in rows)
    matrix = [[prior_weight if row == column else 0.0 for column in range(len(free))] for row in range(len(free))]
    right = [prior_weight] * len(free)
    for terms, weight in rows:
        rest = 1.0 - sum(terms[index] * factor for index, factor in fixed.items())
        for row, first in enumerate(free):
            right[row] += weight * terms[first] * rest
            for column, second in enumerate(free):
                matrix[row][column] += weight * terms[first] * terms[second]
    solved = _gaussian_elimination(matrix, right)
    factors = dict(zip(free, solved, strict=True)) | fixed
    return [factors[index] for index in range(len(COEFFICIENTS))]


def _gaussian_elimination(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves `matrix · x = right`. The matrix is positive definite, because the prior is on its diagonal."""
    size = len(right)
    for pivot in range(size):
        for row in range(pivot + 1, size):
            share = matrix[row][pivot] / matrix[pivot][pivot]
            right[row] -= share * right[pivot]
            for column in range(pivot, size):
                matrix[row][column] -= share * matrix[pivot][column]
    solved = [0.0] * size
    for row in reversed(range(size)):
        known = sum(matrix[row][column] * solved[column] for column in range(row + 1, size))
        solved[row] = (right[row] - known) / matrix[row][row]
    return solved


def _determined(observations: Sequence[Observation], prior: EngineProfile) -> list[str]:
    """The coefficients whose share of the step varies independently of the shares of all others.

    The shares of one coefficient over all observations form a column. The part of the column that is orthogonal to all
    other columns must be long enough.
    """
    columns = list(zip(*(_terms(prior, observation) for observation in observations), strict=True))
    seconds = [observation.seconds for observation in observations]
    scaled = [[value / second for value, second in zip(column, seconds, strict=True)] for column in columns]
    determined = []
    for index, name in enumerate(COEFFICIENTS):
        basis: list[list[float]] = []
        for other, column in enumerate(scaled):
            if other == index:
                continue
            rest = _orthogonal_part(column, basis)
            if _norm(rest) > 1e-9:
                basis.append(rest)
        distinct = _norm(_orthogonal_part(scaled[index], basis))
        if distinct > SMALLEST_DISTINCT_SHARE * sqrt(len(scaled[index])):
            determined.append(name)
    return determined


def _orthogonal_part(column: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    """The column without its projection on each vector of an orthogonal basis."""
    rest = list(column)
    for vector in basis:
        share = sum(a * b for a, b in zip(rest, vector, strict=True)) / sum(value**2 for value in vector)
        rest = [value - share * component for value, component in zip(rest, vector, strict=True)]
    return rest


def _norm(column: Sequence[float]) -> float:
    return sqrt(sum(value**2 for value in column))
