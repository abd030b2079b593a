"""Changes to a definition, shown on small sources."""

import ast
from pathlib import Path

import pytest

from prove.fault import MisfitError
from prove.mutations import (
    Mutation,
    always,
    at,
    begins,
    body,
    calling,
    delegates,
    element,
    entry,
    negated,
    never,
    replaced,
    returns,
    unwrapped,
    value,
    without,
)

LATE = """
def late(load, limits):
    ready = sorted(load.ready, key=len)
    if load.known and load.waiting > limits.most:
        note(load, rule="late", labels={SERVING: "true", "drain": 1})
        return first(ready)
    return None
"""
CONSTANTS = """
MOST: int = 4
CHECKS = (too_many, too_old)
"""


def project(folder: Path, source: str) -> Path:
    module = folder / "operator" / "forebay" / "limits.py"
    module.parent.mkdir(parents=True)
    module.write_text(source)
    return folder


@pytest.mark.parametrize(
    ("where", "mutation", "old", "new"),
    [
        pytest.param("late", always("waiting"), "load.waiting > limits.most", "True", id="one operand holds"),
        pytest.param("late", never("known"), "load.known", "False", id="one operand does not hold"),
        pytest.param("late", negated("most"), "load.waiting", "not load.waiting", id="one operand is turned round"),
        pytest.param("late", entry("rule", '"early"'), '"late"', '"early"', id="a keyword"),
        pytest.param("late", entry("rule", None), 'rule="late", ', "", id="no keyword"),
        pytest.param("late", entry("SERVING", None), 'SERVING: "true", ', "", id="no entry of that name"),
        pytest.param(
            "late", entry("drain", "_ + 1"), '"drain": 1', '"drain": 1 + 1', id="an entry from the one before"
        ),
        pytest.param("late", unwrapped("sorted"), "sorted(load.ready, key=len)", "load.ready", id="no call"),
        pytest.param("late", calling("first", "last"), "first(", "last(", id="another call"),
        pytest.param("late", calling("note", "log.note"), "note(", "log.note(", id="a method of something else"),
        pytest.param("late", replaced("first", "list(_)"), "first(ready)", "list(first(ready))", id="around a call"),
        pytest.param("late", replaced("waiting", "0"), "load.waiting", "0", id="instead of an attribute"),
        pytest.param("late", without("note"), LATE.splitlines()[4].strip(), "pass", id="no such statement"),
        pytest.param("MOST", value("_ * 2"), "4", "4 * 2", id="a constant from the one before"),
        pytest.param("CHECKS", element("too_old"), "(too_many, too_old)", "(too_many,)", id="an element less"),
    ],
)
def test_a_change(where: str, mutation: Mutation, old: str, new: str, tmp_path: Path):
    source = LATE + CONSTANTS
    assert old in source
    _, text = at(where, mutation).rewritten(project(tmp_path, source))
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(source.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("mutation", "wanted"),
    [
        pytest.param(returns("load"), ["return load"], id="an expression"),
        pytest.param(body("pass"), ["pass"], id="statements"),
        pytest.param(delegates("early"), ["return early(load, limits)"], id="another function with its parameters"),
    ],
)
def test_the_whole_of_a_function(mutation: Mutation, wanted: list[str], tmp_path: Path):
    _, text = at("late", mutation).rewritten(project(tmp_path, LATE))
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert [ast.unparse(statement) for statement in function.body] == wanted


def test_the_beginning_of_a_function(tmp_path: Path):
    _, text = at("late", begins("import time")).rewritten(project(tmp_path, LATE))
    assert text.splitlines()[1].strip() == "import time"
    assert "return first(ready)" in text


def test_several_changes_to_one_function(tmp_path: Path):
    _, text = at("late", always("known"), never("waiting")).rewritten(project(tmp_path, LATE))
    assert "if True and False:" in text


TWICE = "def hold(load):\n    return load.most > 1 and load.most < 9\n"


def test_one_of_several(tmp_path: Path):
    _, text = at("hold", always("most", nth=2)).rewritten(project(tmp_path, TWICE))
    assert "return load.most > 1 and True" in text


@pytest.mark.parametrize(
    ("where", "mutation", "why"),
    [
        pytest.param("hold", always("most"), "condition on `most` is there 2 times; say which", id="not unique"),
        pytest.param("hold", always("most", nth=3), "condition on `most` is there 2 times", id="no third"),
        pytest.param("hold", always("least"), "condition on `least` is there 0 times", id="no such condition"),
        pytest.param("hold", entry("least", None), "entry `least` is there 0 times", id="no such entry"),
        pytest.param("hold", without("least"), "statement with `least` is there 0 times", id="no such statement"),
        pytest.param("hold", replaced("load", "load", nth=1), "changes nothing", id="no change"),
        pytest.param("hold", value("1"), "is no constant", id="a function is no constant"),
        pytest.param("ONE", returns("1"), "is no function", id="a constant is no function"),
    ],
)
def test_a_mutation_that_does_not_fit_is_refused(where: str, mutation: Mutation, why: str, tmp_path: Path):
    with pytest.raises(MisfitError, match=f"`{where}`.*{why}"):
        at(where, mutation).rewritten(project(tmp_path, TWICE + "ONE = 1\n"))
