"""Speculative decoding: a cheap draft guesses a few tokens, and one step of the model checks them all."""

from dataclasses import dataclass
from typing import Final

FREE_METHODS: Final = ("ngram", "suffix")
"""Guess from the text that is already there, on the CPU."""
HEAD_METHODS: Final = ("eagle", "eagle3", "mtp")
"""One layer more on top of the model, and its own pass through the output embedding."""
HEAD_LAYERS: Final = 1.5
"""What a head costs, in layers of the model."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How many tokens a step gives, and what it costs more."""

    method: str
    tokens: int
    """Guessed for each step."""
    acceptance: float
    """Chance that a guessed token is the model's own, given that those before it were; 0 to 1."""
    draft_cost: float
    """Time of one guess, as a share of a step that reads the weights and nothing else."""

    @property
    def tokens_per_step(self) -> float:
        """The guesses that hold, and the token the model adds itself: 1 + α + α² + … + αᵏ."""
        return sum(self.acceptance**count for count in range(self.tokens + 1))

    @property
    def step_factor(self) -> float:
        """What a step takes, guesses included, beside one without."""
        return 1 + self.tokens * self.draft_cost

    @property
    def checked(self) -> int:
        """Tokens that each sequence brings into a step."""
        return self.tokens + 1


def draft_cost(method: str, layers: int, target_parameters: int, draft_parameters: int | None) -> float | None:
    """What a guess costs by default; None for a draft model whose size is not known."""
    if method in FREE_METHODS:
        return 0.0
    if method in HEAD_METHODS:
        return min(1.0, HEAD_LAYERS / layers)
    return None if draft_parameters is None else min(1.0, draft_parameters / target_parameters)
