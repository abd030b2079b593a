"""Isolation: an error while planning one service affects that service alone."""

import traceback
from collections.abc import Callable
from typing import Protocol, TypeVar

from forebay.api.reasons import Reason
from forebay.planner.memory import ServiceMemory
from forebay.planner.observe.service_context import UnplannedService
from forebay.world.world import ServiceView, SpecProblem


class Planned(Protocol):
    """A service as any step passes it on."""

    @property
    def service(self) -> ServiceView: ...

    @property
    def memory(self) -> ServiceMemory: ...


Input = TypeVar("Input", bound=Planned)
Output = TypeVar("Output")


def isolated(step: Callable[[Input], Output], service: Input) -> Output | UnplannedService:
    """The result of the step, or an unplanned service that says why the step failed."""
    try:
        return step(service)
    except Exception as error:  # noqa: BLE001 - one service's fault must not hold the others
        return failed(service.service, service.memory, error)


def failed(service: ServiceView, memory: ServiceMemory, error: Exception) -> UnplannedService:
    message = f"Planning failed, so nothing is done for this service: {type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    return UnplannedService(service, memory, (SpecProblem(Reason.PLANNING_FAILED, message),), trace)
