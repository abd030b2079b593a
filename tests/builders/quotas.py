"""Builders of ResourceQuotas, and a count of what a plan adds to them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
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


def used_by(quota: QuotaView, specs: Iterable[Mapping[str, Any]]) -> QuotaView:
    """The quota when pods with these specs exist and no others."""
    return replace(quota, used=_with(dict.fromkeys(quota.hard, Fraction(0)), quota, specs))


def charged_by(quota: QuotaView, actions: Iterable[Action]) -> dict[str, Fraction]:
    """What the quota's use becomes when the actions' pods are created, counted from the pods as they are written."""
    created = (action.body["spec"] for action in actions if isinstance(action, CreatePod | CreatePlaceholder))
    return _with(quota.used, quota, created)


def _with(used: Mapping[str, Fraction], quota: QuotaView, specs: Iterable[Mapping[str, Any]]) -> dict[str, Fraction]:
    after = dict(used)
    for charge in map(charge_of, specs):
        for resource, amount in charge.usage.items():
            if resource in quota.hard and applies(quota, charge):
                after[resource] += amount
    return after
