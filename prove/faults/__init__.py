"""The faults, by the area of their claims."""

from prove.fault import Fault
from prove.faults import (
    blast_radius,
    bounds,
    drain,
    engine_sim,
    learned,
    lease,
    ownership,
    placeholders,
    pods,
    purity,
    revisions,
    rights,
    rollouts,
    scaling,
    shell,
    signals,
    status,
    view,
)

FAULTS: tuple[Fault, ...] = (
    *drain.FAULTS,
    *signals.FAULTS,
    *bounds.FAULTS,
    *scaling.FAULTS,
    *learned.FAULTS,
    *purity.FAULTS,
    *revisions.FAULTS,
    *rollouts.FAULTS,
    *ownership.FAULTS,
    *blast_radius.FAULTS,
    *placeholders.FAULTS,
    *lease.FAULTS,
    *view.FAULTS,
    *status.FAULTS,
    *pods.FAULTS,
    *engine_sim.FAULTS,
    *rights.FAULTS,
    *shell.FAULTS,
)
