"""Fitting: the coefficients of an engine's step from what was seen of it, by least squares.

Loads of one length cannot tell prompts, sequences and KV reads apart: all three grow together. So the fit starts from
what is believed beforehand (a built-in profile or a roofline estimate) and leaves it only as far as the observations
pull: a weak pull towards the belief decides what they cannot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

from forebay.capacity.model.engine_profile import EngineProfile

COEFFICIENTS: Final = ("step_seconds", "prompt_token_seconds", "sequence_seconds", "kv_token_seconds")
BELIEF: Final = 1e-4
"""Weight of one unit of doubt (a coefficient off by its own size) beside one observation off by its own size."""
SMALLEST: Final = 0.01
"""No coefficient falls below this share of what was believed: a step takes time, and work is never free."""


DISTINCT: Final = 0.02
"""A term tells its coefficient when at least so much of a step moves apart from the other terms."""


class FitError(ValueError):
    """Why there is nothing to fit, as one sentence."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Mean values over some steps of one engine."""

    seconds: float
    """Of the step, or of whatever else is a sum of the same coefficients."""
    prompt_tokens: float
    sequences: float
    kv_tokens: float
    steps: float = 1.0
    """How many steps' fixed time is in it."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fit:
    profile: EngineProfile
    observations: int
    mean_error: float
    """Root of the mean squared error, as a share of each observation."""
    largest_error: float
    told: tuple[str, ...]
    """Coefficients that the observations decide; the others are what was believed, scaled."""


def fit(observations: Sequence[Observation], believed: EngineProfile) -> Fit:
    """Raises FitError for observations that say nothing."""
    usable = [seen for seen in observations if seen.seconds > 0]
    if not usable:
        raise FitError("no observation has a step time above 0")
    factors = _factors(usable, believed)
    profile = replace(
        believed,
        **{name: getattr(believed, name) * factor for name, factor in zip(COEFFICIENTS, factors, strict=True)},
    )
    errors = [predicted(profile, seen) / seen.seconds - 1 for seen in usable]
    return Fit(
        profile=profile,
        observations=len(usable),
        mean_error=sqrt(sum(error**2 for error in errors) / len(errors)),
        largest_error=max((abs(error) for error in errors), default=0.0),
        told=tuple(_told(usable, believed)),
    )


def predicted(profile: EngineProfile, seen: Observation) -> float:
    """What the profile says of an observation."""
    return sum(_terms(profile, seen))


def _terms(profile: EngineProfile, seen: Observation) -> tuple[float, float, float, float]:
    return (
        profile.step_seconds * seen.steps,
        profile.prompt_token_seconds * seen.prompt_tokens,
        profile.sequence_seconds * seen.sequences,
        profile.kv_token_seconds * seen.kv_tokens,
    )


def _factors(observations: Sequence[Observation], believed: EngineProfile) -> list[float]:
    """By how much each coefficient differs from the belief. Those that would fall too low are held there in turn."""
    rows = [([term / seen.seconds for term in _terms(believed, seen)], seen.weight) for seen in observations]
    held: dict[int, float] = {}
    while True:
        factors = _solve(rows, held)
        low = [index for index, factor in enumerate(factors) if factor < SMALLEST and index not in held]
        if not low:
            return factors
        held[min(low, key=lambda index: factors[index])] = SMALLEST


def _solve(rows: Sequence[tuple[list[float], float]], held: dict[int, float]) -> list[float]:
    """Normal equations of `Σ w·(1 − Σ m·z)² + BELIEF·Σ (m − 1)²`, by Gauss."""
    free = [index for index in range(len(COEFFICIENTS)) if index not in held]
    doubt = BELIEF * sum(weight for _, weight in rows)
    matrix = [[doubt if row == column else 0.0 for column in range(len(free))] for row in range(len(free))]
    right = [doubt] * len(free)
    for terms, weight in rows:
        rest = 1.0 - sum(terms[index] * factor for index, factor in held.items())
        for row, first in enumerate(free):
            right[row] += weight * terms[first] * rest
            for column, second in enumerate(free):
                matrix[row][column] += weight * terms[first] * terms[second]
    solved = _gauss(matrix, right)
    factors = dict(zip(free, solved, strict=True)) | held
    return [factors[index] for index in range(len(COEFFICIENTS))]


def _gauss(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The matrix is positive definite: the belief is on its diagonal."""
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


def _told(observations: Sequence[Observation], believed: EngineProfile) -> list[str]:
    """A coefficient is told by the data when its share of the step varies apart from the shares of all others.

    Each term is taken as a column, and what is left of it after the columns before and after is compared with it.
    """
    columns = list(zip(*(_terms(believed, seen) for seen in observations), strict=True))
    seconds = [seen.seconds for seen in observations]
    scaled = [[value / second for value, second in zip(column, seconds, strict=True)] for column in columns]
    told = []
    for index, name in enumerate(COEFFICIENTS):
        left = scaled[index]
        basis: list[list[float]] = []
        for other, column in enumerate(scaled):
            if other == index:
                continue
            rest = _without(column, basis)
            if _norm(rest) > 1e-9:
                basis.append(rest)
        apart = _norm(_without(left, basis))
        if apart > DISTINCT * sqrt(len(left)):
            told.append(name)
    return told


def _without(column: Sequence[float], basis: Sequence[Sequence[float]]) -> list[float]:
    """The column less its part along each of the orthogonal ones."""
    rest = list(column)
    for other in basis:
        share = sum(a * b for a, b in zip(rest, other, strict=True)) / sum(value**2 for value in other)
        rest = [value - share * along for value, along in zip(rest, other, strict=True)]
    return rest


def _norm(column: Sequence[float]) -> float:
    return sqrt(sum(value**2 for value in column))
