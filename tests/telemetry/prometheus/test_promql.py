"""Escaping: no value can change the query."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.telemetry.prometheus.promql import equals, is_label_name, last_seconds, literal, one_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def unquoted(text: str) -> str:
    """The value that Prometheus reads from a string literal; fails when the literal ends early or late."""
    match = _LITERAL.fullmatch(text)
    assert match is not None
    return re.sub(r"\\(.)", lambda escape: _UNESCAPED[escape[1]], match[1], flags=re.DOTALL)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("plain", r'"plain"', id="nothing to escape"),
        pytest.param('a"} or up{x="', r'"a\"} or up{x=\""', id="a quote ends nothing"),
        pytest.param("back\\slash\\", r'"back\\slash\\"', id="a backslash escapes nothing"),
        pytest.param("two\nlines", r'"two\nlines"', id="a literal stays on its line"),
    ],
)
def test_literals_are_escaped(value, expected):
    assert literal(value) == expected


@settings(deadline=None)
@given(TEXTS)
def test_a_literal_reads_back_as_its_value(value):
    assert unquoted(literal(value)) == value
    assert unquoted(equals("cluster", value).removeprefix("cluster=")) == value


@settings(deadline=None)
@given(st.sets(TEXTS, min_size=1, max_size=5), TEXTS)
def test_an_alternative_matches_itself_and_nothing_else(values, other):
    matcher = one_of("namespace", values)
    pattern = unquoted(matcher.removeprefix("namespace=~"))

    assert [value for value in values if not re.fullmatch(pattern, value)] == []
    assert bool(re.fullmatch(pattern, other)) == (other in values)


def test_a_pattern_that_is_too_long_matches_every_series():
    assert one_of("namespace", [f"team-{n}" for n in range(1000)]) == 'namespace!=""'


def test_the_query_does_not_depend_on_the_order_of_values():
    assert one_of("namespace", ["b", "a", "b"]) == one_of("namespace", ["a", "b"]) == 'namespace=~"a|b"'


def test_a_range_vector_query():
    assert last_seconds("up", [equals("a", "1"), equals("b", "2")], 30) == 'up{a="1",b="2"}[30s]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [("pod", True), ("exported_pod", True), ("_x1", True), ("1x", False), ("", False), ("a-b", False), ("é", False)],
)
def test_label_names_are_recognised(text, expected):
    assert is_label_name(text) is expected
