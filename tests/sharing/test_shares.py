"""Shares of given tenants: the reference rows of the design, groups, and input that is refused."""

import pytest

from forebay.sharing.division import ScaledGuarantees
from forebay.sharing.shares import share_amounts, share_units
from forebay.sharing.tenant import SharingError, Tenant
from forebay.sharing.tenant_tree import TenantTree
from tests.builders.tenants import a_case, a_tenant, granted

ABC = (a_tenant("a"), a_tenant("b"), a_tenant("c"))


@pytest.mark.parametrize(
    ("tenants", "asks", "capacity", "expected"),
    [
        pytest.param(
            ABC,
            {"a": 300_000, "b": 250_000, "c": 2_000_000},
            1_000_000,
            {"a": 300_000, "b": 250_000, "c": 450_000},
            id="what two leave unused goes to the third",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=400), a_tenant("b", guaranteed=0)),
            {"a": 1000, "b": 1000},
            1000,
            {"a": 500, "b": 500},
            id="a guarantee below the share adds nothing to it",
        ),
        pytest.param(
            (a_tenant("a"), a_tenant("b"), a_tenant("c", batch=True)),
            {"a": 700_000, "b": 500_000, "c": 2_000_000},
            1_000_000,
            {"a": 500_000, "b": 500_000, "c": 0},
            id="interactive before batch",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=600_000), a_tenant("b"), a_tenant("c")),
            {"a": 800_000, "b": 800_000, "c": 2_000_000},
            1_000_000,
            {"a": 600_000, "b": 200_000, "c": 200_000},
            id="a guarantee above the share is kept",
        ),
        pytest.param(
            (a_tenant("a", weight=2), a_tenant("b"), a_tenant("c", limit=200_000)),
            {"a": 2_000_000, "b": 2_000_000, "c": 2_000_000},
            1_000_001,
            {"a": 533_334, "b": 266_667, "c": 200_000},
            id="weights 2:1 beside a limit",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=300), a_tenant("b", guaranteed=900), a_tenant("c", batch=True, guaranteed=300)),
            {"a": 1000, "b": 1000, "c": 1000},
            1000,
            {"a": 200, "b": 600, "c": 200},
            id="guarantees above the capacity are scaled in proportion",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=300), a_tenant("b", guaranteed=900)),
            {"a": 100, "b": 1000},
            1000,
            {"a": 100, "b": 900},
            id="guarantees above the capacity are kept as far as those that are asked for fit",
        ),
        pytest.param(
            (a_tenant("a"), a_tenant("c", batch=True, guaranteed=300)),
            {"a": 1000, "c": 1000},
            1000,
            {"a": 700, "c": 300},
            id="a guarantee of batch comes before the rest of interactive",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=500, limit=200),), {"a": 900}, 1000, {"a": 200}, id="a limit comes first"
        ),
        pytest.param(ABC, {}, 1000, {"a": 0, "b": 0, "c": 0}, id="nobody asks"),
        pytest.param(ABC, {"a": 5}, 0, {"a": 0, "b": 0, "c": 0}, id="there is nothing"),
        pytest.param((), {}, 1000, {}, id="there is nobody"),
    ],
)
def test_shares(tenants, asks, capacity, expected):
    case = a_case(tenants, capacity, **asks)
    assert granted(case.amounts()) == pytest.approx(expected, abs=0.5)
    assert granted(case.units()) == expected


ORG = a_tenant("org", guaranteed=600)


@pytest.mark.parametrize(
    ("tenants", "asks", "expected"),
    [
        pytest.param(
            (ORG, a_tenant("a", parent="org", guaranteed=400), a_tenant("b", parent="org"), a_tenant("z")),
            {"a": 100, "b": 900, "z": 900},
            {"org": 600, "a": 100, "b": 500, "z": 400},
            id="a sibling borrows an unused guarantee before others do",
        ),
        pytest.param(
            (a_tenant("org"), a_tenant("a", parent="org", guaranteed=600), a_tenant("b", parent="org"), a_tenant("z")),
            {"a": 100, "b": 900, "z": 900},
            {"org": 600, "a": 100, "b": 500, "z": 400},
            id="also when only the children have guarantees",
        ),
        pytest.param(
            (a_tenant("org"), a_tenant("a", parent="org"), a_tenant("b", parent="org"), a_tenant("z")),
            {"a": 900, "b": 900, "z": 900},
            {"org": 500, "a": 250, "b": 250, "z": 500},
            id="a group has the weight of a group, however many are in it",
        ),
        pytest.param(
            (
                a_tenant("org", limit=300),
                a_tenant("a", parent="org", weight=2),
                a_tenant("b", parent="org"),
                a_tenant("z"),
            ),
            {"a": 900, "b": 900, "z": 900},
            {"org": 300, "a": 200, "b": 100, "z": 700},
            id="a limit of a group holds for its children together",
        ),
        pytest.param(
            (
                ORG,
                a_tenant("a", parent="org", guaranteed=600),
                a_tenant("b", parent="org", guaranteed=300),
                a_tenant("z"),
            ),
            {"a": 900, "b": 900, "z": 900},
            {"org": 600, "a": 400, "b": 200, "z": 400},
            id="guarantees of children above that of their group are scaled within it",
        ),
        pytest.param(
            (ORG, a_tenant("a", parent="org"), a_tenant("b", parent="org", batch=True), a_tenant("z")),
            {"a": 100, "b": 900, "z": 900},
            {"org": 600, "a": 100, "b": 500, "z": 400},
            id="a guarantee of a group serves its batch, once its interactive work has enough",
        ),
        pytest.param(
            (a_tenant("org"), a_tenant("a", parent="org"), a_tenant("z")),
            {"org": 900, "a": 900, "z": 900},
            {"org": 500, "a": 250, "z": 500},
            id="a group that asks itself shares with its children, with weight 1",
        ),
        pytest.param(
            (
                a_tenant("org"),
                a_tenant("unit", parent="org"),
                a_tenant("a", parent="unit", guaranteed=700),
                a_tenant("z"),
            ),
            {"a": 900, "z": 900},
            {"org": 700, "unit": 700, "a": 700, "z": 300},
            id="a guarantee two levels down",
        ),
    ],
)
def test_groups(tenants, asks, expected):
    case = a_case(tenants, 1000, **asks)
    assert granted(case.amounts()) == pytest.approx(expected)
    assert granted(case.units()) == expected


def test_columns_of_a_tenant():
    tenants = [a_tenant("a", guaranteed=600), a_tenant("b"), a_tenant("c", limit=900)]
    rows = {row.name: row for row in a_case(tenants, 900, a=500, b=100, c=1000).amounts().tenants}

    assert [row.fair_share for row in rows.values()] == [300, 300, 300]
    assert [row.granted for row in rows.values()] == pytest.approx([500, 100, 300])
    assert [row.lent for row in rows.values()] == pytest.approx([100, 50, 0])
    assert [row.borrowed for row in rows.values()] == pytest.approx([0, 0, 150])
    assert [row.short for row in rows.values()] == pytest.approx([0, 0, 600])


def test_what_batch_has_beyond_its_guarantee_is_borrowed():
    tenants = [a_tenant("a"), a_tenant("b", batch=True, guaranteed=100)]
    batch = a_case(tenants, 1000, a=300, b=900).amounts().tenants[1]

    assert (batch.fair_share, batch.granted, batch.borrowed, batch.short) == pytest.approx((500, 700, 600, 200))


def test_a_group_without_a_guarantee_says_that_it_keeps_none_of_its_children():
    tenants = (a_tenant("org", guaranteed=0), a_tenant("a", parent="org", guaranteed=300), a_tenant("z"))
    shares = a_case(tenants, 1000, a=900, z=900).amounts()

    assert shares.scaled == (ScaledGuarantees("org", 300, 0),)
    assert granted(shares) == pytest.approx({"org": 500, "a": 500, "z": 500})


def test_scaled_guarantees_are_named_with_their_sums():
    tenants = (ORG, a_tenant("a", parent="org", guaranteed=600), a_tenant("b", parent="org", guaranteed=300))
    case = a_case((*tenants, a_tenant("z", guaranteed=600)), 1000, a=900, b=900, z=900)

    assert set(case.amounts().scaled) == {ScaledGuarantees(None, 1200, 1000), ScaledGuarantees("org", 900, 500)}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"weight": 0}, "weight 0", id="no weight"),
        pytest.param({"weight": float("nan")}, "weight nan", id="a weight that is no number"),
        pytest.param({"guaranteed": -1}, "guaranteed -1", id="a negative guarantee"),
        pytest.param({"limit": float("inf")}, "limit inf", id="an infinite limit"),
    ],
)
def test_a_tenant_that_cannot_be_divided_for_is_refused(fields, named):
    with pytest.raises(SharingError, match=f"tenant a: {named}"):
        Tenant("a", **fields)


@pytest.mark.parametrize(
    ("tenants", "named"),
    [
        pytest.param([a_tenant("a"), a_tenant("a")], "a is there twice", id="twice"),
        pytest.param([a_tenant("a", parent="b")], "parent b is no tenant", id="an unknown parent"),
        pytest.param([a_tenant("a", parent="a")], "a → a", id="its own parent"),
        pytest.param(
            [a_tenant("a", parent="b"), a_tenant("b", parent="a"), a_tenant("c", parent="a")],
            "back to itself",
            id="a cycle",
        ),
    ],
)
def test_a_tree_that_is_none_is_refused(tenants, named):
    with pytest.raises(SharingError, match=named):
        TenantTree.of(tenants)


@pytest.mark.parametrize(
    ("asks", "capacity", "named"),
    [
        pytest.param({"d": 1}, 10, "no tenant is named d; there are a, b, c", id="an ask of nobody"),
        pytest.param({"a": -1}, 10, "tenant a: asked -1", id="a negative ask"),
        pytest.param({"a": float("nan")}, 10, "tenant a: asked nan", id="an ask that is no number"),
        pytest.param({"a": 1}, float("inf"), "capacity inf", id="an infinite capacity"),
        pytest.param({"a": 1}, -1, "capacity -1", id="a negative capacity"),
    ],
)
def test_asks_that_cannot_be_divided_for_are_refused(asks, capacity, named):
    with pytest.raises(SharingError, match=named):
        share_amounts(TenantTree.of(ABC), asks, capacity)


def test_units_are_whole():
    with pytest.raises(SharingError, match=r"1\.5"):
        share_units(TenantTree.of(ABC), {"a": 1.5}, 10)  # type: ignore[dict-item]
