"""Builders of ResourceQuotas, and a count of what a plan adds to them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from forebay.workloads.objects.pod_charge import applies, charge_of
from forebay.world.plan import Action, CreatePlaceholder, CreatePod
from forebay.world.quota import QuotaScope, QuotaView
from tests.builders.world import GPU

GPUS = f"requests.{GPU}"


def a_quota(
    *,
    gpus: tuple[int, int] | None = None,
    pods: tuple[int, int] | None = None,
    limits: Mapping[str, tuple[int, int]] | None = None,
    name: str = "team",
    namespace: str = "default",
    scopes: Iterable[QuotaScope] = (),
) -> QuotaView:
    """A quota; every limit is a pair of use and limit, such as `gpus=(2, 4)` for 2 of 4 used."""
    given = {**({GPUS: gpus} if gpus else {}), **({"pods": pods} if pods else {}), **(limits or {})}
    return QuotaView(
        namespace,
        name,
        hard={resource: Fraction(hard) for resource, (_, hard) in given.items()},
        used={resource: Fraction(used) for resource, (used, _) in given.items()},
        scopes=tuple(scopes),
    )


def charged_by(quota: QuotaView, actions: Iterable[Action]) -> dict[str, Fraction]:
    """What the quota's use becomes when the actions' pods are created, counted from the pods as they are written."""
    used = dict(quota.used)
    for action in actions:
        if isinstance(action, CreatePod | CreatePlaceholder):
            add(used, quota, action.body["spec"])
    return used


def add(used: dict[str, Fraction], quota: QuotaView, spec: Mapping[str, Any]) -> None:
    charge = charge_of(spec)
    for resource, amount in charge.usage.items():
        if resource in quota.hard and applies(quota, charge):
            used[resource] = used.get(resource, Fraction(0)) + amount
