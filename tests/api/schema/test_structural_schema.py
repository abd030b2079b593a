from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from forebay.api.duration import Duration
from forebay.api.schema.structural_schema import NotStructuralError, structural_schema


class Documented(BaseModel):
    """What it is,
    over two lines."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    size: Annotated[int, Field(gt=0, lt=10)] = 3
    """How large."""


def of(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The schema of a field with this annotation."""
    model = type("Sample", (BaseModel,), {"__annotations__": {"field": annotation}, "field": Field(default)})
    field_schema: dict[str, Any] = structural_schema(model)["properties"]["field"]
    return field_schema


def test_references_are_inlined_and_keywords_beside_them_take_precedence():
    class Holder(BaseModel):
        first: Annotated[Documented, Field(description="The first.")]
        second: Documented

    properties = structural_schema(Holder)["properties"]
    assert (properties["first"]["description"], properties["second"]["description"]) == (
        "The first.",
        "What it is, over two lines.",
    )
    assert properties["first"]["properties"] == properties["second"]["properties"]


def test_a_default_is_described_and_never_set():
    assert structural_schema(Documented)["properties"]["size"]["description"] == "How large. Default: 3."
    assert structural_schema(Documented, describe_defaults=False)["properties"]["size"]["description"] == "How large."


@pytest.mark.parametrize(
    ("annotation", "default", "schema"),
    [
        pytest.param(int | None, None, {"type": "integer"}, id="an optional is its type, not required"),
        pytest.param(Literal["a"], ..., {"type": "string", "enum": ["a"]}, id="a constant is an enum of one"),
        pytest.param(
            Annotated[int, Field(gt=0)],
            ...,
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            id="an exclusive bound is a bound and a flag",
        ),
        pytest.param(
            Annotated[int, Field(lt=9)],
            ...,
            {"type": "integer", "maximum": 9, "exclusiveMaximum": True},
            id="an exclusive upper bound as well",
        ),
        pytest.param(
            tuple[int, ...],
            ...,
            {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "integer"}},
            id="a tuple of any length is a list",
        ),
        pytest.param(
            frozenset[str],
            ...,
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            id="a set is a list set",
        ),
        pytest.param(
            dict[str, int],
            ...,
            {"type": "object", "additionalProperties": {"type": "integer"}},
            id="a dictionary is a map",
        ),
        pytest.param(Duration, ..., {"type": "string", "maxLength": 16}, id="a duration is its text"),
        pytest.param(bool, False, {"description": "Default: false.", "type": "boolean"}, id="a default of false"),
    ],
)
def test_python_types_become_schemas(annotation, default, schema):
    assert of(annotation, default) == schema


def test_optional_fields_are_not_required():
    class Sample(BaseModel):
        given: int
        left_out: int | None = None
        defaulted: int = 1

    assert structural_schema(Sample)["required"] == ["given"]


def test_forbidden_extra_fields_add_no_keyword():
    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int

    assert "additionalProperties" not in structural_schema(Strict)


class Tree(BaseModel):
    children: "list[Tree]" = []


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        pytest.param(int | str, "Sample.field: a union of 2 types", id="a union"),
        pytest.param(
            tuple[int, str], "Sample.field: a structural schema has no prefixItems", id="a tuple of fixed shape"
        ),
        pytest.param(Tree, "contains itself", id="recursion"),
        pytest.param(
            dict[Annotated[str, Field(pattern="a")], int],
            "Sample.field: a structural schema has no patternProperties",
            id="constrained keys",
        ),
    ],
)
def test_unions_tuples_and_recursion_are_refused_with_their_path(annotation, says):
    with pytest.raises(NotStructuralError, match=says):
        of(annotation)
