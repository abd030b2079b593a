"""`forebay share`: who would get what, from manifests."""

import json
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from forebay.cli.main import app

MODEL = "chat/llama-8b"


def a_quota(name: str, model: str | None = MODEL, *, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """A TenantQuota; guaranteed and limit are of the model, the others of the quota."""
    own: dict[str, Any] = {field: fields.pop(field) for field in ("guaranteed", "limit") if field in fields}
    shares: list[dict[str, Any]] = [{"model": model, **own}] if model else []
    spec: dict[str, Any] = {**fields, "shares": shares}
    if parent:
        spec["parent"] = parent
    return {"apiVersion": "forebay.dev/v1alpha1", "kind": "TenantQuota", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def share(write):
    def run(quotas: list[dict[str, Any]], *arguments: str, capacity: str = "1000000", model: str = MODEL):
        path = write("quotas.yaml", yaml.safe_dump_all(quotas))
        return CliRunner().invoke(
            app, ["share", "-f", path, "--model", model, "--capacity", capacity, *arguments], catch_exceptions=False
        )

    return run


THREE = [a_quota("support"), a_quota("summaries"), a_quota("batch")]
ASKS = ("--ask", "support=300000", "--ask", "summaries=250000", "--ask", "batch=2000000")


def test_shares_as_json(share):
    result = share(THREE, *ASKS, "-o", "json")

    assert result.exit_code == 0
    assert [
        (tenant["name"], tenant["granted"], tenant["short"]) for tenant in json.loads(result.stdout)["tenants"]
    ] == [("batch", 450_000, 1_550_000), ("summaries", 250_000, 0), ("support", 300_000, 0)]
    assert json.loads(result.stdout)["tenants"][0] == {
        "name": "batch",
        "asked": 2_000_000,
        "guaranteed": 0,
        "limit": None,
        "weight": 1,
        "class": "Interactive",
        "fairShare": 333_333.333,
        "granted": 450_000,
        "borrowed": 116_666.667,
        "lent": 0,
        "short": 1_550_000,
    }


def test_the_table_has_a_row_for_each_tenant(share):
    lines = share(THREE, *ASKS).stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["TENANT", "batch", "summaries", "support"]
    assert "450,000" in lines[1]


def test_quotas_decide_class_weight_limit_and_group(share):
    quotas = [
        a_quota("org", guaranteed=600_000),
        a_quota("team", parent="org", weight=2),
        a_quota("nightly", parent="org", **{"class": "Batch"}),
        a_quota("other", limit=300_000),
        a_quota("stranger", model="chat/other"),
    ]
    asks = ("--ask", "team=400000", "--ask", "nightly=900000", "--ask", "other=900000", "-o", "json")
    tenants = {tenant["name"]: tenant for tenant in json.loads(share(quotas, *asks).stdout)["tenants"]}

    assert {name: tenant["granted"] for name, tenant in tenants.items()} == {
        "org": 700_000,
        "team": 400_000,
        "nightly": 300_000,
        "other": 300_000,
    }


def test_a_group_that_does_not_list_the_model_counts_by_its_weight(share):
    quotas = [a_quota("org", model=None), a_quota("one", parent="org"), a_quota("two", parent="org"), a_quota("z")]
    asks = ("--ask", "one=900000", "--ask", "two=900000", "--ask", "z=900000", "-o", "json")
    granted = {tenant["name"]: tenant["granted"] for tenant in json.loads(share(quotas, *asks).stdout)["tenants"]}

    assert granted == {"org": 500_000, "one": 250_000, "two": 250_000, "z": 500_000}


def test_guarantees_that_do_not_fit_are_named(share):
    quotas = [a_quota("a", guaranteed=900_000), a_quota("b", guaranteed=300_000)]
    asks = ("--ask", "a=900000", "--ask", "b=300000")

    assert json.loads(share(quotas, *asks, "-o", "json").stdout)["scaledGuarantees"] == [
        {"group": None, "wanted": 1_200_000, "available": 1_000_000}
    ]
    assert "1,200,000" in share(quotas, *asks).stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(("--ask", "support"), "--ask support", id="an ask without an amount"),
        pytest.param(("--ask", "support=many"), "--ask support=many", id="an ask that is no number"),
        pytest.param(("--ask", "support=-1"), "asked -1", id="a negative ask"),
        pytest.param(("--ask", "suport=1"), "no tenant is named suport", id="an ask of nobody"),
        pytest.param(("--ask", "support=1", "--ask", "support=2"), "twice", id="two asks of one"),
        pytest.param(("--capacity", "-5"), "capacity -5", id="a negative capacity"),
        pytest.param(("--capacity", "nan"), "capacity nan", id="a capacity that is no number"),
        pytest.param(("--model", "chat/unknown"), "they list chat/llama-8b", id="a model that nobody lists"),
    ],
)
def test_input_that_cannot_be_used_is_refused(share, arguments, named):
    result = share(THREE, *arguments)

    assert result.exit_code == 2
    assert named in result.stderr


@pytest.mark.parametrize(
    ("quotas", "named"),
    [
        pytest.param([a_quota("a"), a_quota("a")], "a is there twice", id="twice"),
        pytest.param(
            [a_quota("a", parent="org")],
            'TenantQuota a: spec.parent: there is no TenantQuota "org"',
            id="an unknown parent",
        ),
        pytest.param([a_quota("a", parent="b"), a_quota("b", parent="a")], "lead back to this quota", id="a cycle"),
        pytest.param(
            [a_quota("a", namespaces=["chat"]), a_quota("b", namespaces=["chat"])],
            "TenantQuota b: spec.namespaces",
            id="what a condition would report",
        ),
        pytest.param([a_quota("a", weight=0)], "weight", id="what the API server would refuse"),
        pytest.param([], "no TenantQuota", id="no quota at all"),
    ],
)
def test_quotas_that_cannot_be_used_are_refused(share, quotas, named):
    result = share(quotas)

    assert result.exit_code == 2
    assert named in result.stderr
