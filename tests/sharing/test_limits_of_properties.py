"""Counterexamples: where groups, classes or whole units make a property of divisions untrue, and what holds instead."""

import pytest

from tests.builders.tenants import a_case, a_tenant, granted


def test_units_of_a_heavy_tenant_may_be_several_above_the_exact_amount():
    """(granted + 1) ÷ weight prefers heavy tenants, which is what makes it monotonic in capacity and tenants: no method
    is that and always within one of the exact amount (Balinski and Young). Nobody is ever one below."""
    small = [a_tenant(f"small-{index:02}", weight=1) for index in range(40)]
    case = a_case([a_tenant("large", weight=60), *small], 10, large=99, **{tenant.name: 99 for tenant in small})

    assert granted(case.amounts())["large"] == pytest.approx(6)
    assert granted(case.units())["large"] == 10


def test_a_quota_that_is_deleted_takes_its_guarantee_from_the_siblings_who_borrowed_it():
    """It holds for a tenant that stops asking, and for any tenant of a group with a guarantee of its own."""
    tenants = [a_tenant("org"), a_tenant("a", parent="org", guaranteed=600), a_tenant("b", parent="org"), a_tenant("z")]
    case = a_case(tenants, 1000, b=900, z=900)

    assert granted(case.amounts())["b"] == pytest.approx(600)
    assert granted(case.without("a").amounts())["b"] == pytest.approx(500)


def test_batch_takes_from_interactive_of_others_within_a_guarantee_of_its_group():
    """Guarantees of either class come first, and a group's guarantee is its own to use."""
    tenants = [a_tenant("org", guaranteed=600), a_tenant("nightly", parent="org", batch=True), a_tenant("chat")]
    case = a_case(tenants, 1000, nightly=0, chat=900)

    assert granted(case.amounts())["chat"] == pytest.approx(900)
    assert granted(case.asking("nightly", 900).amounts())["chat"] == pytest.approx(400)


def test_guarantees_above_that_of_their_group_let_a_tenant_lose_when_another_stops_asking():
    """The group is guaranteed 100 and gets 200. Its children's guarantees are scaled to 100, and the rest goes by
    weight. Once `b` stops asking, that of `a` is kept in full, and nothing is left of the limit for `c`."""
    tenants = [
        a_tenant("org", guaranteed=100),
        a_tenant("sub", parent="org", limit=100),
        a_tenant("a", parent="sub", guaranteed=100),
        a_tenant("c", parent="sub"),
        a_tenant("b", parent="org", guaranteed=100),
        a_tenant("z"),
    ]
    case = a_case(tenants, 400, a=100, b=100, c=100, z=400)

    assert granted(case.amounts())["c"] == pytest.approx(50)
    assert granted(case.asking("b", 0).amounts())["c"] == pytest.approx(0)


def test_cousins_may_envy_each_other():
    """Tenants are compared with siblings only; their groups are compared with each other."""
    tenants = [
        a_tenant("one"),
        a_tenant("alone", parent="one"),
        a_tenant("two"),
        a_tenant("first", parent="two"),
        a_tenant("second", parent="two"),
    ]
    amounts = granted(a_case(tenants, 100, alone=99, first=99, second=99).amounts())

    assert (amounts["alone"], amounts["first"], amounts["second"]) == pytest.approx((50, 25, 25))


def test_a_tie_between_units_goes_to_the_first_by_name():
    assert granted(a_case([a_tenant("b"), a_tenant("a")], 1, a=1, b=1).units()) == {"a": 1, "b": 0}
