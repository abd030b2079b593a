"""Problems: why a plan does not hold, or could not be made, in words and with ways out that were computed."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """Whose turn it is."""

    MISFIT = "misfit"
    """The plan is known and does not hold."""
    UNKNOWN = "unknown"
    """The manifest does not say enough to plan at all."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    field: str
    """Path in the manifest."""
    value: str | int | float | None
    """As written; None for a field that is absent."""
    reason: str
    """A sentence without the field and without its full stop."""
    options: tuple[str, ...] = ()
    """Each would solve it by itself."""
    kind: ProblemKind = ProblemKind.MISFIT

    def __str__(self) -> str:
        shown = "" if self.value is None else f'"{self.value}" ' if isinstance(self.value, str) else f"{self.value} "
        ways = f"; {' or '.join(self.options)}" if self.options else ""
        return f"{self.field}: {shown}{self.reason}{ways}."


class UnplannableError(Exception):
    """A service that cannot be planned; nothing of it is known beyond the problems."""

    def __init__(self, *problems: PlanProblem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems
