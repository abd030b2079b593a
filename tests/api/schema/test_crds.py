"""The CRD files in Git are those of the models, and satisfy what the API server requires."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from forebay.api.schema.api_reference import page
from forebay.api.schema.crds import INFERENCE_SERVICE, KINDS, PERFORMANCE_PROFILE, definition, files, schema, text
from forebay.cli.main import app
from tests.api.schema_lint import lint

ROOT = Path(__file__).parents[3]


def test_the_definitions_in_git_are_those_of_the_models():
    """`make crds` writes them."""
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "crds").glob("*.yaml")}
    assert written == dict(files())


def test_the_reference_page_in_git_is_that_of_the_models():
    assert (ROOT / "docs/api.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_schema_is_bounded_and_explained(kind):
    parts = schema(kind)["properties"].keys() & {"spec", "status"}
    assert parts == ({"spec", "status"} if kind.status else {"spec"})
    assert [problem for part in sorted(parts) for problem in lint(schema(kind)["properties"][part], part)] == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_definition_reads_back_from_its_file(kind):
    assert yaml.safe_load(text(kind)) == definition(kind)


def test_an_inference_service_is_found_by_its_names():
    spec = definition(INFERENCE_SERVICE)["spec"]
    assert (spec["group"], spec["scope"], spec["names"]) == (
        "forebay.dev",
        "Namespaced",
        {
            "categories": ["forebay"],
            "kind": "InferenceService",
            "listKind": "InferenceServiceList",
            "plural": "inferenceservices",
            "shortNames": ["infs"],
            "singular": "inferenceservice",
        },
    )


def test_a_profile_is_cluster_scoped_without_a_status():
    spec = definition(PERFORMANCE_PROFILE)["spec"]
    [version] = spec["versions"]
    assert (spec["scope"], spec["names"]["plural"]) == ("Cluster", "performanceprofiles")
    assert "subresources" not in version


def test_only_status_is_a_subresource():
    """With a scale subresource, a second autoscaler could write the replica number."""
    [version] = definition(INFERENCE_SERVICE)["spec"]["versions"]
    assert (version["name"], version["subresources"]) == ("v1alpha1", {"status": {}})


def test_the_columns_explain_a_decision():
    shown = [column.name for column in INFERENCE_SERVICE.columns if not column.wide]
    assert shown == ["Ready", "Desired", "Model", "Queue", "KV%", "Reason", "Age"]


def test_conditions_merge_by_type_and_volumes_by_name():
    properties = schema(INFERENCE_SERVICE)["properties"]
    lists = (
        properties["status"]["properties"]["conditions"],
        properties["spec"]["properties"]["engine"]["properties"]["env"],
        properties["spec"]["properties"]["pod"]["properties"]["volumes"],
    )
    assert [(node["x-kubernetes-list-type"], node["x-kubernetes-list-map-keys"]) for node in lists] == [
        ("map", ["type"]),
        ("map", ["name"]),
        ("map", ["name"]),
    ]


def test_command_writes_to_several_places_at_once(tmp_path):
    result = CliRunner().invoke(
        app,
        ["crds", "-o", f"{tmp_path}/one", "-o", f"{tmp_path}/deep/two", "--docs", f"{tmp_path}/docs/api.md"],
    )
    assert (result.exit_code, result.output) == (0, "")
    for folder in ("one", "deep/two"):
        assert {path.name: path.read_text() for path in (tmp_path / folder).iterdir()} == dict(files())
    assert (tmp_path / "docs/api.md").read_text() == page()


def test_command_writes_to_standard_output_by_itself():
    result = CliRunner().invoke(app, ["crds"])
    assert [document["kind"] for document in yaml.safe_load_all(result.output)] == ["CustomResourceDefinition"] * len(
        KINDS
    )
