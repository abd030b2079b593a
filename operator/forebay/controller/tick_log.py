"""The logs of ticks: only what has changed since the last tick, so that the same line is not repeated."""

import logging
from collections.abc import Sequence

from prometheus_client import Counter, Gauge

from forebay.world.plan import Plan
from forebay.world.world import ServiceKey

log = logging.getLogger(__name__)


class DecisionLog:
    """Logs each service's decision when it changes. After a restart each is logged once more."""

    def __init__(self, changes: Counter) -> None:
        self._changes = changes
        self._last: dict[ServiceKey, tuple[str, int]] = {}
        self._errors: dict[ServiceKey, str] = {}
        self._held: str | None = None

    def note(self, plan: Plan) -> None:
        if plan.held != self._held:
            self._held = plan.held
            if plan.held is not None:
                log.warning("the whole plan is held back: %s", plan.held)
            else:
                log.info("the plan is no longer held back")
        if plan.held is None:
            self._note_errors(plan)
            self._note_decisions(plan)

    def _note_errors(self, plan: Plan) -> None:
        errors = {service.key: service.error for service in plan.services if service.error is not None}
        for key, error in errors.items():
            if self._errors.get(key) != error:
                log.error(
                    "planning of %s failed, and its pods stay as they are: %s", key, error, extra={"service": str(key)}
                )
        self._errors = errors

    def _note_decisions(self, plan: Plan) -> None:
        latest: dict[ServiceKey, tuple[str, int]] = {}
        for service in plan.services:
            decision = service.status.decision
            if decision is None:
                continue
            latest[service.key] = (decision.rule, decision.desired)
            if self._last.get(service.key) == latest[service.key]:
                continue
            self._changes.labels(decision.rule).inc()
            log.info(
                "%s wants %d replicas: %s",
                service.key,
                decision.desired,
                decision.because,
                extra={"service": str(service.key), "rule": decision.rule, "desired": decision.desired},
            )
        self._last = latest


class UnreadableLog:
    """Logs each unreadable object once, for as long as it stays unreadable."""

    def __init__(self, count: Gauge) -> None:
        self._count = count
        self._logged: frozenset[str] = frozenset()

    def note(self, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self._logged:
                log.warning("%s; it is ignored", problem)
        self._logged = frozenset(problems)
        self._count.set(len(self._logged))
