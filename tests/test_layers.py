"""What may import what, and that what decides asks no clock."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter import api  # noqa: F401 - sets import-linter up, and leaves logging alone as its cli does not
from importlinter.application.use_cases import lint_imports

ROOT = Path(__file__).parent.parent
PURE = ("api", "capacity", "scaling", "sharing", "planner", "workloads")
CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "perf_counter"}


def modules() -> list[Path]:
    package = ROOT / "operator" / "forebay"
    return sorted(path for name in PURE for path in (package / name).rglob("*.py"))


def readings(source: str) -> Iterator[int]:
    """Lines in which a clock is read: `datetime.now(…)`, `date.today()` and the like."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            yield node.lineno


def test_imports_keep_the_contracts(capsys):
    kept = lint_imports(config_filename=str(ROOT / ".importlinter"), cache_dir=None)
    assert kept, capsys.readouterr().out


def test_pure_packages_ask_no_clock():
    assert {str(path): lines for path in modules() if (lines := list(readings(path.read_text())))} == {}


@pytest.mark.parametrize(
    "source", ["datetime.now(UTC)", "date.today()", "datetime.datetime.utcnow()", "f(time.time())"]
)
def test_a_clock_is_known_when_one_is_read(source):
    assert list(readings(source)) == [1]
