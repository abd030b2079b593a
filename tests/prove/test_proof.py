"""The runner: which outcomes count as a found fault, shown on a project of one module."""

import shutil
import subprocess
from pathlib import Path

import pytest

from prove.copies import ROOT
from prove.fault import Fault
from prove.mutations import Mutation, at, begins, returns, value
from prove.proof import Result, prove

MODULE = "operator/forebay/limits.py"
TESTS = "tests/test_limits.py"
FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["operator", "."]\n',
    "operator/forebay/__init__.py": "",
    MODULE: "MOST = 4\nUNTESTED = 1\n\n\ndef cut(replicas):\n    return min(replicas, MOST)\n",
    "tests/__init__.py": "",
    TESTS: """\
import sys
import types

import pytest

from forebay import limits


@pytest.mark.parametrize("asked", [3, 9])
def test_never_more(asked):
    assert limits.cut(asked) <= 4


def test_that_is_red_anyway():
    assert limits.MOST == 5


def test_that_runs_code_from_elsewhere():
    sys.modules["forebay.elsewhere"] = types.ModuleType("forebay.elsewhere")
    sys.modules["forebay.elsewhere"].__file__ = "/elsewhere/forebay/elsewhere.py"
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Found by git as the real one is; it carries the runner's plugin with it, as the real one does."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(ROOT / "prove", tmp_path / "prove", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def a_fault(name: str, where: str, mutation: Mutation, guard: str = "test_never_more") -> Fault:
    return Fault(f"limits.{name}", name, "", (at(where, mutation),), (guard,))


FAULTS = {
    "red": a_fault("red", "MOST", value("8")),
    "not seen": a_fault("not seen", "UNTESTED", value("2")),
    "an unknown name": a_fault("an unknown name", "cut", returns("min(replicas, MUST)")),
    "a wrong type": a_fault("a wrong type", "cut", returns("min(replicas, str(MOST))")),
    "an import that fails": a_fault("an import that fails", "cut", begins("import forebay.nothing")),
    "a module that cannot be imported": a_fault("a module that cannot be imported", "MOST", value("int('four')")),
    "does not fit": a_fault("does not fit", "LEAST", value("8")),
    "no such guard": a_fault("no such guard", "MOST", value("8"), "test_never_fewer"),
    "red anyway": a_fault("red anyway", "MOST", value("8"), "test_that_is_red_anyway"),
}


def proved(project: Path, *faults: Fault) -> dict[str, Result]:
    return {result.fault.claim: result for result in prove(faults, 2, project)}


def test_outcomes_that_count_as_found(project):
    troubles = {name: result.trouble for name, result in proved(project, *FAULTS.values()).items()}
    assert troubles.keys() == FAULTS.keys()
    assert troubles["red"] == ""
    assert "did not turn red by what it asserts: tests/test_limits.py::test_never_more: passed" in troubles["not seen"]
    assert "the planted code does not run" in troubles["an unknown name"]
    assert "test_never_more: broken: TypeError" in troubles["a wrong type"]
    assert "test_never_more: broken: ModuleNotFoundError" in troubles["an import that fails"]
    assert "could not run the guards" in troubles["a module that cannot be imported"]
    assert "`LEAST` is not defined" in troubles["does not fit"]
    assert "`test_never_fewer` is not defined" in troubles["no such guard"]
    assert "not green without the fault: tests/test_limits.py::test_that_is_red_anyway" in troubles["red anyway"]
    assert (project / MODULE).read_text() == FILES[MODULE]


def test_code_from_outside_the_copy_is_detected(project):
    (result,) = proved(project, a_fault("strange", "MOST", value("8"), "test_that_runs_code_from_elsewhere")).values()
    assert result.trouble == "code from outside the copy was run: /elsewhere/forebay/elsewhere.py"


def test_a_child_process_that_imports_the_original_is_detected(project):
    shutil.rmtree(project / "operator")
    (project / TESTS).write_text("def test_nothing():\n    pass\n")
    fault = Fault("limits.none", "none", "", (_Rewritten(),), ("test_nothing",))
    (result,) = proved(project, fault).values()
    assert result.trouble == f"code from outside the copy was run: {ROOT / 'operator/forebay/__init__.py'}"


class _Rewritten:
    def rewritten(self, root: Path) -> tuple[Path, str]:
        return root / TESTS, "def test_nothing():\n    assert False\n"
