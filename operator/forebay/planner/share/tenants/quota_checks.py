"""Quota checks: what is wrong with a TenantQuota that only several objects show.

Each check is a pure function of one case and returns a fault or None; the first of `CHECKS` that finds one names the
reason of the condition, and the message has all of them. A fault makes void only what it is about: the rest of the
quota counts. The older of two claims is never at fault, and no message names another tenant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.api.instants import unix_seconds
from forebay.api.reasons import Reason
from forebay.api.tenant_quota import QuotaSpec
from forebay.planner.share.tenants.claims import Claims
from forebay.world.tenants import TenantQuotaView
from forebay.world.world import SpecProblem

MOST_NAMED: Final = 3
"""Values of one field that a message names; the others are counted."""


@dataclass(frozen=True, slots=True)
class QuotaCase:
    """One quota among all others. `quota.spec` may be None."""

    quota: TenantQuotaView
    claims: Claims
    models: frozenset[str]
    """Every InferenceService, as namespace/name."""
    now: float

    @property
    def spec(self) -> QuotaSpec:
        """The spec; an empty one while it cannot be read."""
        return self.quota.spec or _EMPTY


_EMPTY: Final = QuotaSpec()
Check = Callable[[QuotaCase], SpecProblem | None]


def spec_unreadable(case: QuotaCase) -> SpecProblem | None:
    if case.quota.spec is not None:
        return None
    return SpecProblem(Reason.SPEC_INVALID, case.quota.problem or "spec: it does not match this operator's schema.")


def parent_unknown(case: QuotaCase) -> SpecProblem | None:
    parent = case.spec.parent
    if parent is None or parent in case.claims.names:
        return None
    return SpecProblem(
        Reason.PARENT_UNKNOWN,
        f'spec.parent: there is no TenantQuota "{parent}", so this quota has no parent; create it, or leave parent '
        "out.",
    )


def parent_cycle(case: QuotaCase) -> SpecProblem | None:
    parent = case.spec.parent
    if parent is None or parent not in case.claims.names or case.claims.parents.get(case.quota.name) == parent:
        return None
    return SpecProblem(
        Reason.PARENT_CYCLE,
        f'spec.parent: the parents of "{parent}" lead back to this quota, which is the youngest of them, so it has no '
        "parent; name another parent, or leave it out.",
    )


def namespace_claimed(case: QuotaCase) -> SpecProblem | None:
    lost = [name for name in case.spec.namespaces if case.claims.namespaces.get(name) != case.quota.name]
    if not lost:
        return None
    return SpecProblem(
        Reason.NAMESPACE_CLAIMED,
        f"spec.namespaces: an older quota has {_named(lost)}; remove it from one of the two quotas.",
    )


def key_claimed(case: QuotaCase) -> SpecProblem | None:
    lost = [key.name for key in case.spec.api_keys if case.claims.keys.get(key.sha256) != case.quota.name]
    if not lost:
        return None
    return SpecProblem(
        Reason.KEY_CLAIMED,
        f"spec.apiKeys: an older quota has the sha256 of {_named(lost)}; create another key with `forebay key create`.",
    )


def model_unknown(case: QuotaCase) -> SpecProblem | None:
    unknown = [share.model for share in case.spec.shares if share.model not in case.models]
    if not unknown:
        return None
    return SpecProblem(
        Reason.MODEL_UNKNOWN,
        f"spec.shares: there is no InferenceService {_named(unknown)}; create it, or correct or remove the share.",
    )


def guarantee_above_parent(case: QuotaCase) -> SpecProblem | None:
    overruns = case.claims.overruns.get(case.quota.name)
    if not overruns:
        return None
    first = overruns[0]
    more = f" (and {len(overruns) - 1} more)" if len(overruns) > 1 else ""
    return SpecProblem(
        Reason.GUARANTEE_ABOVE_PARENT,
        f"spec.{first.field}.guaranteed{more}: with older quotas of the same parent this is {first.guaranteed:,}, but "
        f'"{first.parent}" is guaranteed {first.of_parent:,}; lower it, or raise the guarantee of the parent.',
    )


def key_expired(case: QuotaCase) -> SpecProblem | None:
    expired = [
        key.name
        for key in case.spec.api_keys
        if key.expires_at is not None and (end := unix_seconds(key.expires_at)) is not None and end <= case.now
    ]
    if not expired:
        return None
    return SpecProblem(
        Reason.KEY_EXPIRED,
        f"spec.apiKeys: expiresAt of {_named(expired)} has passed; remove the key, or create another one with "
        "`forebay key create`.",
    )


CHECKS: Final[tuple[Check, ...]] = (
    spec_unreadable,
    parent_unknown,
    parent_cycle,
    namespace_claimed,
    key_claimed,
    model_unknown,
    guarantee_above_parent,
    key_expired,
)


def faults_of(case: QuotaCase) -> tuple[SpecProblem, ...]:
    """All faults, in the order of `CHECKS`."""
    return tuple([fault for check in CHECKS if (fault := check(case)) is not None])


def _named(values: list[str]) -> str:
    """The first few values in quotes, and how many more there are."""
    shown = ", ".join(f'"{value}"' for value in values[:MOST_NAMED])
    return shown if len(values) <= MOST_NAMED else f"{shown} and {len(values) - MOST_NAMED} more"
