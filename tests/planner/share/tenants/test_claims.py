"""The oldest claim wins, in whatever order the quotas are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.planner.share.tenants.claims import claims_of
from tests.builders.tenant_quotas import a_tenant_quota, the_claims, unreadable
from tests.builders.world import NOW
from tests.planner.any_world import quick

OLD = a_tenant_quota("old", age=200, namespaces=["shared"])
YOUNG = a_tenant_quota("young", age=100, namespaces=["shared", "own"])


def test_the_older_claim_of_a_namespace_wins():
    claims = the_claims(YOUNG, OLD)
    assert claims.namespaces == {"shared": "old", "own": "young"}


def test_of_two_quotas_from_the_same_second_the_smaller_uid_wins():
    first = a_tenant_quota("zebra", uid="aaaa", namespaces=["shared"])
    second = a_tenant_quota("ant", uid="bbbb", namespaces=["shared"])
    assert the_claims(second, first).namespaces == {"shared": "zebra"}


def test_a_namespace_that_nobody_claims_belongs_to_the_default_tenant():
    claims = claims_of((OLD,), "everyone")
    assert (claims.tenant_of("shared"), claims.tenant_of("other")) == ("old", "everyone")


def test_a_quota_that_is_being_deleted_claims_nothing():
    from dataclasses import replace

    assert the_claims(replace(OLD, deleting=True), YOUNG).namespaces == {"shared": "young", "own": "young"}


def test_an_unreadable_quota_claims_nothing_and_may_be_a_parent():
    child = a_tenant_quota("child", parent="old")
    claims = the_claims(unreadable(OLD), child)
    assert (claims.namespaces, claims.parents) == ({}, {"child": "old"})


@pytest.mark.parametrize(
    ("quotas", "parents"),
    [
        pytest.param([("a", 3, "b")], {}, id="unknown parent"),
        pytest.param([("a", 3, "b"), ("b", 2, None)], {"a": "b"}, id="a younger parent"),
        pytest.param([("a", 3, "b"), ("b", 2, "a")], {"a": "b"}, id="two that name each other: the younger loses"),
        pytest.param(
            [("a", 3, "b"), ("b", 1, "c"), ("c", 2, "a")],
            {"a": "b", "c": "a"},
            id="a cycle of three: the youngest loses",
        ),
        pytest.param(
            [("a", 3, "b"), ("b", 2, "a"), ("c", 1, "b")],
            {"a": "b", "c": "b"},
            id="a child of a cycle keeps its parent",
        ),
    ],
)
def test_parents(quotas, parents):
    views = [a_tenant_quota(name, age=age, **({"parent": parent} if parent else {})) for name, age, parent in quotas]
    assert the_claims(*views).parents == parents


@given(
    parents=st.lists(st.sampled_from(["t0", "t1", "t2", "t3", "t4", "nobody", None]), min_size=5, max_size=5),
    ages=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    order=st.permutations(range(5)),
)
@quick
def test_no_cycle_is_left_and_the_order_does_not_matter(parents, ages, order):
    quotas = [
        a_tenant_quota(f"t{n}", age=age, **({"parent": parent} if parent and parent != f"t{n}" else {}))
        for n, (parent, age) in enumerate(zip(parents, ages, strict=True))
    ]
    claims = the_claims(*quotas)
    assert the_claims(*(quotas[n] for n in order)) == claims
    for name in claims.names:
        way = [name]
        while (above := claims.parents.get(way[-1])) is not None:
            assert above not in way
            way.append(above)


def test_ancestors():
    claims = the_claims(
        a_tenant_quota("org"), a_tenant_quota("unit", parent="org"), a_tenant_quota("team", parent="unit")
    )
    assert claims.with_ancestors(["team"]) == {"team", "unit", "org"}
    assert claims.with_ancestors(["org", "stranger"]) == {"org", "stranger"}


def test_guarantees_of_children_count_in_the_order_of_their_age():
    claims = the_claims(
        a_tenant_quota("org", age=9, tokens={"chat/llama": (100,)}),
        a_tenant_quota("first", age=8, parent="org", tokens={"chat/llama": (60,)}),
        a_tenant_quota("second", age=7, parent="org", tokens={"chat/llama": (50,)}),
        a_tenant_quota("third", age=6, parent="org", tokens={"chat/llama": (40,)}),
    )
    assert {name: [(o.guaranteed, o.of_parent) for o in found] for name, found in claims.overruns.items()} == {
        "second": [(110, 100)]
    }


def test_a_parent_that_states_no_guarantee_has_that_of_its_children():
    claims = the_claims(a_tenant_quota("org"), a_tenant_quota("team", parent="org", tokens={"chat/llama": (60,)}))
    assert claims.overruns == {}


def test_guarantees_of_gpus_are_compared_with_the_entry_that_holds_for_the_product():
    every = a_tenant_quota("org", age=9, gpus=[{"guaranteed": 4}])
    team = a_tenant_quota("team", parent="org", gpus=[{"product": "NVIDIA-L40S", "guaranteed": 6}])
    (found,) = the_claims(every, team).overruns["team"]
    assert (found.field, found.guaranteed, found.of_parent) == ("gpus[NVIDIA-L40S]", 6, 4)


def test_a_shadow_quota_takes_nothing_from_its_siblings():
    claims = the_claims(
        a_tenant_quota("org", age=9, tokens={"chat/llama": (100,)}),
        a_tenant_quota("shadow", age=8, parent="org", mode="Shadow", tokens={"chat/llama": (90,)}),
        a_tenant_quota("team", age=7, parent="org", tokens={"chat/llama": (90,)}),
    )
    assert claims.overruns == {}


def test_age_comes_before_the_name():
    assert NOW - OLD.created_at == 200
    assert [quota.name for quota in the_claims(YOUNG, OLD).quotas] == ["old", "young"]
