from typing import Any

import pytest

from forebay.api.schema.structural_schema import Schema
from tests.api.schema_lint import lint


def an_object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def described(**schema: Any) -> Schema:
    return {"description": "What it is.", **schema}


TEXT = {"type": "string", "maxLength": 8}
ITEM: Schema = {"type": "object", "required": ["name"], "properties": {"name": described(**TEXT)}}


@pytest.mark.parametrize(
    ("node", "problems"),
    [
        pytest.param(TEXT, (), id="a bounded string"),
        pytest.param({"type": "string", "enum": ["a"]}, (), id="a choice bounds itself"),
        pytest.param({"type": "string"}, ("x: is a string without maxLength",), id="a string of any length"),
        pytest.param(
            {"type": "string", "format": "date-time"}, ("x: is a string without maxLength",), id="a time of any length"
        ),
        pytest.param({"type": "integer", "minimum": 0}, ("x: is a number without maximum",), id="no upper bound"),
        pytest.param(
            {"type": "number"}, ("x: is a number without minimum", "x: is a number without maximum"), id="no bound"
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"},
            ("x: is a list without maxItems",),
            id="a list of any length",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "maxItems": 2, "x-kubernetes-list-type": "atomic"},
            ("x[]: is a string without maxLength",),
            id="a list of strings of any length",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "maxItems": 2},
            ("x: is a list of type None; say atomic, set or map",),
            id="a list of no kind",
        ),
        pytest.param(
            {"type": "array", "items": ITEM, "maxItems": 2, "x-kubernetes-list-type": "set"},
            ("x: is a set of things that are no scalars",),
            id="a set of objects",
        ),
        pytest.param(
            {
                "type": "array",
                "items": ITEM,
                "maxItems": 2,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
            },
            ("x: is a list map whose keys ['id'] are not required of its items",),
            id="a list map without its key",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": TEXT},
            ("x: is a map without maxProperties",),
            id="a map of any size",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True, "maxProperties": 2},
            ("x: is a map of anything",),
            id="a free map",
        ),
        pytest.param(
            {"type": "object"}, ("x: is an object that needs either properties or additionalProperties",), id="anything"
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {}},
            ("x: has x-kubernetes-preserve-unknown-fields",),
            id="unknown fields kept",
        ),
        pytest.param({**TEXT, "default": "a"}, ("x: has default",), id="a default"),
        pytest.param({**TEXT, "nullable": True}, ("x: has nullable",), id="null"),
        pytest.param({"anyOf": [TEXT]}, ("x: has anyOf", "x: has type None"), id="a union"),
        pytest.param(an_object(name=TEXT), ("x.name: has no description",), id="a field that nobody explains"),
        pytest.param(
            an_object() | {"required": ["name"]}, ("x: requires ['name'], which it does not have",), id="a ghost"
        ),
        pytest.param(
            TEXT | {"x-kubernetes-validations": [{"rule": "false", "message": "two\nlines"}]},
            ("x: has a rule whose message is not one line of at most 2048 characters: false",),
            id="a message of two lines",
        ),
        pytest.param(
            TEXT | {"x-kubernetes-validations": [{"rule": "false"}]},
            ("x: has a rule whose message is not one line of at most 2048 characters: false",),
            id="a rule without a message",
        ),
        pytest.param(
            an_object(a=described(**TEXT))
            | {"x-kubernetes-validations": [{"rule": "false", "message": "no", "fieldPath": ".b"}]},
            ("x: has a rule about .b, which does not exist",),
            id="a rule about nothing",
        ),
    ],
)
def test_each_fault_of_a_schema_is_reported(node, problems):
    assert lint(node, "x") == problems


def test_a_fault_of_the_root_is_reported_as_root():
    assert lint({"type": "string"}) == ("<root>: is a string without maxLength",)
