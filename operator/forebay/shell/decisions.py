"""Decisions as log lines and counts: said when the rule or the number changes, not on every tick."""

import logging

from prometheus_client import Counter

from forebay.planner.plan import Plan
from forebay.planner.world import ServiceKey

log = logging.getLogger(__name__)


class DecisionLog:
    """Remembers each service's last decision; a restart repeats them once."""

    def __init__(self, changes: Counter) -> None:
        self._changes = changes
        self._last: dict[ServiceKey, tuple[str, int]] = {}
        self._held: str | None = None

    def note(self, plan: Plan) -> None:
        if plan.held != self._held:
            self._held = plan.held
            if plan.held is not None:
                log.warning("nothing is done: %s", plan.held)
            else:
                log.info("the world is plausible again; planning goes on")
        if plan.held is not None:
            return
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
