"""Speculative decoding: a cheap draft guesses a few tokens, and one step of the model checks them all."""

from dataclasses import dataclass
from typing import Final

FREE_METHODS: Final = ("ngram", "suffix")
"""Methods that guess from the text so far, on the CPU."""
HEAD_METHODS: Final = ("eagle", "eagle3", "mtp")
"""Methods with one more layer on top of the model and its own pass through the output embedding."""
HEAD_LAYERS: Final = 1.5
"""Cost of a head, in layers of the model."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """The tokens that a step yields with a draft, and the additional cost of the step."""

    method: str
    tokens: int
    """k: tokens guessed for each step."""
    acceptance: float
    """α: the probability that a guessed token is the model's own, given that those before it were; 0 to 1."""
    draft_cost: float
    """Time of one guess, as a share of a step that reads the weights and nothing else."""

    @property
    def tokens_per_step(self) -> float:
        """Accepted guesses and the token that the model adds itself: 1 + α + α² + … + αᵏ."""
        return sum(self.acceptance**count for count in range(self.tokens + 1))

    @property
    def step_factor(self) -> float:
        """Time of a step with guesses relative to a step without."""
        return 1 + self.tokens * self.draft_cost

    @property
    def checked(self) -> int:
        """Tokens that each sequence adds to a step."""
        return self.tokens + 1


def draft_cost(method: str, layers: int, target_parameters: int, draft_parameters: int | None) -> float | None:
    """Default cost of one guess, as a share of a step; None for a draft model of unknown size."""
    if method in FREE_METHODS:
        return 0.0
    if method in HEAD_METHODS:
        return min(1.0, HEAD_LAYERS / layers)
    return None if draft_parameters is None else min(1.0, draft_parameters / target_parameters)
