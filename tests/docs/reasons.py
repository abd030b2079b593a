"""Every reason that the code can put into a condition or an Event, read from its syntax.

In the modules that speak to people any CamelCase text is a reason, unless it is listed as something else. So a reason
that is new is found even where it goes through a variable; the price is that a new word of another kind has to be
listed here.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from forebay.planner import plan as actions
from forebay.planner.replicas import ReplicaState
from forebay.planner.steps import Kind
from forebay.scaling.freshness import Freshness
from tests.docs.documents import ROOT

PACKAGE = ROOT / "operator" / "forebay"
SPEAKING = [*sorted((PACKAGE / "planner").glob("*.py")), PACKAGE / "workloads" / "problems.py"]
"""Modules that are read whole."""
CAMEL_CASE = re.compile(r"(?:[A-Z][a-z]+)+")
CALLS = {"Answer": 1, "Problem": 0, "normal": 0, "warning": 0}
"""Functions that take a reason, and the place of it among their arguments."""
OTHER_WORDS = (
    {"True", "False", "Unknown", "Normal", "Warning", "Ready", "Planned", "MetricsFresh", "Warm", "UpToDate"}
    | {"Failed", "Succeeded", "InferenceServices", "Budget", "ChildView"}
    | {action.__name__ for action in actions.Action.__args__}
    | {state.value for state in ReplicaState}
    | {kind.value for kind in Kind}
)
"""States, kinds, phases and types, where they are not handed to one of `CALLS`."""
PUT_TOGETHER = {
    "Metrics": {f"Metrics{freshness}" for freshness in Freshness if freshness is not Freshness.FRESH},
    "Pod": {"PodFailed", "PodSucceeded"},
    "Replica": set(),
}
"""Reasons that are made of a beginning and a variable. `Replica` goes before any of the others."""


def reasons() -> set[str]:
    found = {reason for path in SPEAKING for reason in _words(path)} - OTHER_WORDS
    for path in PACKAGE.rglob("*.py"):
        # The first names its own things so; the second's problems carry a field where ours carry a reason.
        if not {"simulation", "capacity"} & set(path.parts):
            found |= set(_arguments(path))
    return found | set(_blocked())


def _words(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from _put_together(path, node)
        elif isinstance(node, ast.Constant) and id(node) not in parts and _is_reason(node.value):
            yield str(node.value)


def _put_together(path: Path, node: ast.JoinedStr) -> set[str]:
    match node.values:
        case [ast.Constant(value=str(beginning)), ast.FormattedValue()] if _is_reason(beginning):
            assert beginning in PUT_TOGETHER, f"{path.name}:{node.lineno}: add what {beginning}… can become"
            return PUT_TOGETHER[beginning]
    return set()


def _arguments(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            place = CALLS[node.func.id]
            argument = node.args[place] if len(node.args) > place else None
            if isinstance(argument, ast.Constant):
                yield str(argument.value)


def _blocked() -> Iterator[str]:
    """What `_blocked` of the cluster's views can say; it becomes the reason of a stuck replica."""
    tree = ast.parse((PACKAGE / "cluster" / "views.py").read_text())
    [function] = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_blocked"]
    for node in ast.walk(function):
        match node:
            case ast.Return(value=ast.Tuple(elts=[ast.Constant(value=str(reason)), *_])):
                yield reason


def _is_reason(value: object) -> bool:
    return isinstance(value, str) and CAMEL_CASE.fullmatch(value) is not None
