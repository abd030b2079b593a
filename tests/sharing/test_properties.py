"""What holds for every division, of amounts and of units, with groups and without.

Where groups, classes or whole units limit a property, the test says so, and `test_limits_of_properties.py` has the
counterexample.
"""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forebay.sharing.shares import Shares, share_amounts, share_units
from forebay.sharing.tenant import Tenant
from forebay.sharing.tenant_tree import TenantTree
from tests.builders.tenants import BATCH, FLAT, INTERACTIVE, NESTED, Case, cases, granted

TINY = 1e-9
"""Rounding of amounts below 100."""
CASES = FLAT | NESTED


def cap(tenant: Tenant, case: Case) -> float:
    return min(case.asks.get(tenant.name, 0), inf if tenant.limit is None else tenant.limit)


def guarantee(tenant: Tenant) -> float:
    return tenant.guaranteed or 0


def neighbours(case: Case) -> list[tuple[Tenant, Tenant]]:
    """Pairs of leaves of one class with the same parent."""
    return [
        (one, other)
        for one in case.leaves
        for other in case.leaves
        if one is not other and one.parent == other.parent and one.tenant_class is other.tenant_class
    ]


@given(CASES)
def test_the_sum_is_within_the_capacity_and_each_total_within_its_limit(case: Case):
    for shares in case.both():
        rows = {row.name: row for row in shares.tenants}
        assert sum(row.granted for row in rows.values() if not _parent(case, row.name)) <= case.capacity + TINY
        for row in rows.values():
            assert -TINY <= row.granted <= min(row.asked, inf if row.limit is None else row.limit) + TINY


def _parent(case: Case, name: str) -> str | None:
    return next(tenant.parent for tenant in case.tenants if tenant.name == name)


@given(CASES)
def test_guarantees_are_kept_unless_some_are_said_to_be_scaled(case: Case):
    for shares in case.both():
        scaled = {each.group for each in shares.scaled}
        for tenant in case.leaves:
            if scaled.isdisjoint({None, tenant.parent, *(group.name for group in case.above(tenant))}):
                assert granted(shares)[tenant.name] >= min(cap(tenant, case), guarantee(tenant)) - TINY


@given(FLAT)
def test_guarantees_are_scaled_only_if_they_exceed_the_capacity_and_then_in_proportion(case: Case):
    shares = case.amounts()
    wanted = {tenant.name: min(cap(tenant, case), guarantee(tenant)) for tenant in case.tenants}
    assert bool(shares.scaled) == (sum(wanted.values()) > case.capacity)
    if shares.scaled:
        parts = [
            granted(shares)[tenant.name] / guarantee(tenant)
            for tenant in case.tenants
            if guarantee(tenant) and granted(shares)[tenant.name] < wanted[tenant.name] - TINY
        ]
        assert parts == pytest.approx([max(parts)] * len(parts))
        assert all(granted(shares)[tenant.name] <= max(parts) * guarantee(tenant) + TINY for tenant in case.tenants)


@given(CASES)
def test_no_capacity_is_idle_while_it_is_asked_for(case: Case):
    for shares in case.both():
        have = granted(shares)
        full = {
            group.name for group in case.tenants if group.limit is not None and have[group.name] > group.limit - TINY
        }
        used = sum(have[tenant.name] for tenant in case.tenants if tenant.parent is None)
        if used < case.capacity - TINY:
            for tenant in case.leaves:
                held_up = full.isdisjoint(group.name for group in case.above(tenant))
                assert not held_up or have[tenant.name] >= cap(tenant, case) - TINY


@given(CASES)
def test_no_envy_between_neighbours_of_a_class(case: Case):
    """Who is short has no less by weight than a neighbour beyond its guarantee; with units, than one unit less."""
    for shares, unit in zip(case.both(), (0, 1), strict=True):
        have = granted(shares)
        for one, other in neighbours(case):
            if have[one.name] < cap(one, case) - TINY and have[other.name] > guarantee(other) + TINY:
                assert (have[one.name] + unit) / one.weight >= have[other.name] / other.weight - TINY


@given(FLAT, st.data())
def test_asks_of_batch_beyond_its_guarantee_never_change_what_interactive_gets(case: Case, data: st.DataObject):
    other = case
    for tenant in case.tenants:
        if tenant.tenant_class is BATCH:
            least = int(min(case.asks.get(tenant.name, 0), guarantee(tenant)))
            other = other.asking(
                tenant.name, data.draw(st.integers(least, 20)) if least >= guarantee(tenant) else least
            )
    for one, two in zip(case.both(), other.both(), strict=True):
        for tenant in case.tenants:
            if tenant.tenant_class is INTERACTIVE:
                assert granted(one)[tenant.name] == granted(two)[tenant.name]


@given(NESTED)
def test_asks_of_batch_without_any_guarantee_never_change_what_interactive_gets(case: Case):
    """Of its own, or of a group above it."""
    other = case
    for tenant in case.leaves:
        free = not any(guarantee(each) or each.guaranteed is None for each in case.above(tenant))
        if tenant.tenant_class is BATCH and free and not guarantee(tenant):
            other = other.asking(tenant.name, 0)
    for one, two in zip(case.both(), other.both(), strict=True):
        for tenant in case.leaves:
            if tenant.tenant_class is INTERACTIVE:
                assert granted(one)[tenant.name] == pytest.approx(granted(two)[tenant.name], abs=TINY)


@given(CASES, st.integers(1, 20))
def test_more_capacity_never_lowers_anyone(case: Case, more: int):
    for less, larger in zip(case.both(), replace(case, capacity=case.capacity + more).both(), strict=True):
        assert not _lowered(less, larger)


def _lowered(before: Shares, after: Shares) -> dict[str, tuple[float, float]]:
    """Who has less afterwards."""
    then, now = granted(before), granted(after)
    return {name: (then[name], now[name]) for name in now if now[name] < then[name] - TINY}


@given(CASES.filter(Case.children_within_groups), st.data())
def test_a_tenant_that_stops_asking_never_lowers_others(case: Case, data: st.DataObject):
    """If no children are guaranteed more than their group."""
    name = data.draw(st.sampled_from(case.leaves)).name
    above = {group.name for tenant in case.leaves if tenant.name == name for group in case.above(tenant)}
    for before, after in zip(case.both(), case.asking(name, 0).both(), strict=True):
        assert _lowered(before, after).keys() <= {name, *above}


@given(FLAT, st.data())
def test_a_tenant_that_leaves_never_lowers_others(case: Case, data: st.DataObject):
    """Without groups; in a group without a guarantee of its own, what neighbours borrowed of the leaver's goes too."""
    name = data.draw(st.sampled_from(case.leaves)).name
    for before, after in zip(case.both(), case.without(name).both(), strict=True):
        assert not _lowered(before, after)


@given(CASES, st.data(), st.integers(0, 25))
def test_no_lie_raises_what_is_of_use(case: Case, data: st.DataObject, lie: int):
    """Who asks for more than it needs, or for less, gets no more of what it needs. Who asks for more gets no less."""
    tenant = data.draw(st.sampled_from(case.leaves))
    need = case.asks.get(tenant.name, 0)
    for honest, lying in zip(case.both(), case.asking(tenant.name, lie).both(), strict=True):
        assert min(granted(lying)[tenant.name], need) <= granted(honest)[tenant.name] + TINY
        if lie >= need:
            assert granted(lying)[tenant.name] >= granted(honest)[tenant.name] - TINY


@given(CASES, st.randoms(use_true_random=False))
def test_the_order_does_not_matter_and_the_same_input_gives_the_same_output(case: Case, random):
    shuffled = list(case.tenants)
    random.shuffle(shuffled)
    other = replace(case, tenants=tuple(shuffled), asks=dict(reversed(list(case.asks.items()))))
    for one, two in zip(case.both(), other.both(), strict=True):
        assert one.tenants == two.tenants
        assert one.scaled == two.scaled


@given(CASES, st.data())
def test_earlier_shares_save_work_and_change_nothing(case: Case, data: st.DataObject):
    tree = TenantTree.of(case.tenants)
    other = {tenant.name: data.draw(st.integers(0, 20)) for tenant in case.tenants}
    capacity = data.draw(st.sampled_from([case.capacity, case.capacity + 1]))
    for share in (share_amounts, share_units):
        before = share(tree, other, capacity)
        assert share(tree, case.asks, case.capacity, before) == share(tree, case.asks, case.capacity)


@given(CASES)
def test_names_do_not_matter(case: Case):
    """For amounts. A tie between units is decided by name, so there it is the same units but for one."""
    new = {tenant.name: f"{index:02}" for index, tenant in enumerate(reversed(case.tenants))}
    renamed = Case(
        tuple(
            replace(tenant, name=new[tenant.name], parent=None if tenant.parent is None else new[tenant.parent])
            for tenant in case.tenants
        ),
        {new[name]: ask for name, ask in case.asks.items()},
        case.capacity,
    )
    one, two = granted(case.amounts()), granted(renamed.amounts())
    assert [one[name] for name in new] == pytest.approx([two[name] for name in new.values()], abs=TINY)


@given(CASES, st.sampled_from([1e-3, 0.3, 7, 1e6]), st.sampled_from([0.1, 3, 1e4]))
def test_units_of_measure_do_not_matter(case: Case, amount: float, weight: float):
    """Of amounts, and of the weights below each parent."""

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * amount

    own_asks = {tenant.name: case.asks.get(tenant.name, 0) for tenant in case.leaves}
    tenants = [
        replace(tenant, guaranteed=scaled(tenant.guaranteed), limit=scaled(tenant.limit), weight=tenant.weight * weight)
        for tenant in case.tenants
    ]
    asks = {name: ask * amount for name, ask in own_asks.items()}
    changed = granted(share_amounts(TenantTree.of(tenants), asks, case.capacity * amount))
    plain = granted(replace(case, asks=own_asks).amounts())
    assert changed == pytest.approx({name: value * amount for name, value in plain.items()}, abs=1e-7 * amount)


@given(FLAT)
def test_units_are_never_one_below_the_exact_amount_and_bounded_above_it(case: Case):
    """Without groups. Above, by a tenant's weight over the mean weight of those of its class that rise with it. Where
    guarantees are scaled, guarantees are the weights."""
    exact, units, scaled = granted(case.amounts()), granted(case.units()), bool(case.amounts().scaled)
    for tenant in case.tenants:
        rising = [
            guarantee(other) if scaled else other.weight
            for other in case.tenants
            if (scaled or other.tenant_class is tenant.tenant_class)
            and units[other.name] < min(cap(other, case), guarantee(other) if scaled else inf)
        ]
        weight = guarantee(tenant) if scaled else tenant.weight
        above = weight * len(rising) / sum(rising) if rising else 0
        assert -1 - TINY < units[tenant.name] - exact[tenant.name] <= max(above, 1) + TINY


@given(cases(weights=(1,)))
def test_units_are_within_one_of_the_exact_amount_for_equal_weights(case: Case):
    """Without groups, and with guarantees that fit."""
    assume(not case.amounts().scaled)
    exact, units = granted(case.amounts()), granted(case.units())
    assert all(abs(units[name] - exact[name]) < 1 + TINY for name in exact)


@given(CASES, st.data())
def test_one_more_asked_for_changes_nobody_by_more_than_one(case: Case, data: st.DataObject):
    name = data.draw(st.sampled_from(case.leaves)).name
    for before, after in zip(case.both(), case.asking(name, case.asks.get(name, 0) + 1).both(), strict=True):
        then, now = granted(before), granted(after)
        assert all(abs(now[each] - then[each]) <= 1 + TINY for each in now)


@given(CASES)
def test_one_more_of_capacity_changes_nobody_by_more_than_one(case: Case):
    for before, after in zip(case.both(), replace(case, capacity=case.capacity + 1).both(), strict=True):
        then, now = granted(before), granted(after)
        assert all(now[each] - then[each] <= 1 + TINY for each in now)


@given(CASES)
def test_what_is_borrowed_is_lent(case: Case):
    """Granted is one's own and borrowed without lent. Only who has all it asks for lends, if no children are guaranteed
    more than their group."""
    for shares in case.both():
        for row, own in zip(shares.tenants, shares.entitled, strict=True):
            assert row.granted == pytest.approx(own + row.borrowed - row.lent)
            assert min(row.borrowed, row.lent) == 0
        top = [row for row in shares.tenants if _parent(case, row.name) is None]
        assert sum(row.borrowed for row in top) <= sum(row.lent for row in top) + TINY
        if case.children_within_groups():
            leaves = {tenant.name for tenant in case.leaves}
            assert all(row.lent <= TINY or row.short <= TINY for row in shares.tenants if row.name in leaves)
