from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from forebay.api.schema.base_model import Model
from forebay.api.schema.validation_rules import CheckedBy, Rule, literal, matches


class Inner(Model):
    most: int = 4


class Outer(Model):
    rules = (
        Rule["Outer"](
            cel="$least <= $inner.most && $later:7 > 0",
            message="least $least is above inner.most $inner.most, later $later:7",
            holds=lambda outer: outer.least <= outer.inner.most,
            at="least",
        ),
        Rule["Outer"](
            cel="$name != 'taken'", message='"$name" is taken', holds=lambda outer: outer.name != "taken", at="name"
        ),
    )

    name: str
    least: int = 1
    inner: Inner = Inner()
    later: int | None = None


def test_an_absent_field_is_replaced_by_its_default_in_cel():
    assert Outer.rules[0].schema(Outer)["rule"] == (
        "(has(self.least) ? self.least : 1) <= (has(self.inner) && has(self.inner.most) ? self.inner.most : 4)"
        " && (has(self.later) ? self.later : 7) > 0"
    )


def test_a_required_field_needs_no_guard():
    assert Outer.rules[1].schema(Outer)["rule"] == "self.name != 'taken'"


def test_a_message_with_values_has_a_plain_fallback():
    entry = Outer.rules[1].schema(Outer)
    assert entry == {
        "rule": "self.name != 'taken'",
        "message": "<value> is taken",
        "messageExpression": "'\"%s\" is taken'.format([self.name])",
        "fieldPath": ".name",
    }


def test_a_message_without_values_needs_no_expression():
    rule = Rule[int](cel="self > 0", message="100 % wrong", holds=lambda value: value > 0)
    assert rule.schema(None) == {"rule": "self > 0", "message": "100 % wrong"}


def test_per_cent_signs_survive_the_format():
    rule = Rule[int](cel="self > 0", message="$self % is wrong", holds=lambda value: value > 0)
    assert rule.schema(None)["messageExpression"] == "'%s %% is wrong'.format([self])"


def test_every_broken_rule_is_reported_at_its_own_field():
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate({"name": "taken", "least": 5})
    assert [(fault["loc"], fault["msg"]) for fault in refused.value.errors()] == [
        (("least",), "least 5 is above inner.most 4, later 7"),
        (("name",), '"taken" is taken'),
    ]


def test_a_rule_about_fields_is_refused_on_a_scalar():
    with pytest.raises(TypeError, match=r"\$least names a field, so its rule belongs on a model"):
        Outer.rules[0].schema(None)


def test_a_value_of_several_lines_is_not_quoted():
    rule = Rule[str](cel="false", message='"$self" is wrong', holds=lambda value: False)
    assert (rule.sentence("a b"), rule.sentence("a\nb")) == ('"a b" is wrong', "<value> is wrong")


def test_rules_on_a_scalar_come_after_its_bounds():
    short = TypeAdapter(
        Annotated[str, Field(max_length=3), CheckedBy(Rule(cel="false", message="no", holds=lambda value: False))]
    )
    with pytest.raises(ValidationError) as refused:
        short.validate_python("four")
    assert [fault["type"] for fault in refused.value.errors()] == ["string_too_long"]


@pytest.mark.parametrize(
    ("value", "written"), [(True, "true"), (3, "3"), ("it's", r"'it\'s'"), (r"\d", r"'\\d'")], ids=str
)
def test_literals_are_written_as_cel_reads_them(value, written):
    assert literal(value) == written


def test_a_pattern_must_match_the_whole_text():
    assert matches("a|b") == "self.matches('^(a|b)$')"
