"""Problems: why a plan does not fit or could not be made, with remedies that were computed."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemKind(StrEnum):
    """Whether a plan could be made at all."""

    MISFIT = "misfit"
    """The plan was made and does not fit."""
    UNKNOWN = "unknown"
    """The manifest does not say enough to plan at all."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """A field of the manifest that keeps the plan from fitting."""

    field: str
    """Path of the field in the manifest."""
    value: str | int | float | None
    """Value of the field as written; None if the field is absent."""
    reason: str
    """A sentence without the field and without its full stop."""
    remedies: tuple[str, ...] = ()
    """Changes, each of which would solve the problem alone."""
    kind: ProblemKind = ProblemKind.MISFIT

    def __str__(self) -> str:
        shown = "" if self.value is None else f'"{self.value}" ' if isinstance(self.value, str) else f"{self.value} "
        remedies = f"; {' or '.join(self.remedies)}" if self.remedies else ""
        return f"{self.field}: {shown}{self.reason}{remedies}."


class UnplannableError(Exception):
    """A service whose manifest does not say enough for a plan; the problems say why."""

    def __init__(self, *problems: PlanProblem) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = problems
