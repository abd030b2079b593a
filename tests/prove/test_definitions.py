"""Definitions and tests are found by name, wherever they are."""

import ast
from pathlib import Path

import pytest

from prove.definitions import definition, file_of_tests, id_of_test
from prove.fault import MisfitError

FILES = {
    "operator/forebay/planner/limits.py": "MOST = 1\nclass Budget:\n    kind: str = ''\n    def grant(self): ...\n",
    "operator/forebay/scaling/guards.py": "async def grant(): ...\ndef kv_cache(): ...\n",
    "operator/forebay/cluster/guards.py": "def queue(): ...\nif True:\n    def hidden(): ...\n",
    "operator/forebay/api/queue.py": "def queue(): ...\ndef twice(): ...\ndef twice(): ...\n",
    "tests/scaling/test_guards.py": "def test_queue(): ...\nclass TestKv:\n    def test_full(self): ...\n",
    "tests/planner/test_limits.py": "def test_queue(): ...\n",
    "e2e/apiserver/test_rights.py": "async def test_rights(): ...\n",
    "e2e/apiserver/rights.py": "def test_rights(): ...\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("where", "file", "kind"),
    [
        pytest.param("kv_cache", "scaling/guards.py", ast.FunctionDef, id="a function"),
        pytest.param("grant", "scaling/guards.py", ast.AsyncFunctionDef, id="a function, not the method of its name"),
        pytest.param("Budget.grant", "planner/limits.py", ast.FunctionDef, id="a method"),
        pytest.param("Budget.kind", "planner/limits.py", ast.AnnAssign, id="a field"),
        pytest.param("Budget", "planner/limits.py", ast.ClassDef, id="a class"),
        pytest.param("MOST", "planner/limits.py", ast.Assign, id="a constant"),
        pytest.param("guards:queue", "cluster/guards.py", ast.FunctionDef, id="with its module"),
    ],
)
def test_a_definition(where: str, file: str, kind: type[ast.stmt], root: Path):
    found = definition(where, root)
    assert found.path == root / "operator" / "forebay" / file
    assert isinstance(found.node, kind)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        pytest.param("kv", "`kv` is not defined", id="nowhere"),
        pytest.param("limits:kv_cache", "is not defined", id="in another module"),
        pytest.param("hidden", "is not defined", id="inside a condition"),
        pytest.param("queue", "defined 2 times.*api/queue.py, .*cluster/guards.py", id="in two modules"),
        pytest.param("twice", "defined 2 times", id="twice in one module"),
    ],
)
def test_a_missing_or_repeated_definition_is_refused(where: str, why: str, root: Path):
    with pytest.raises(MisfitError, match=why):
        definition(where, root)


@pytest.mark.parametrize(
    ("guard", "wanted"),
    [
        pytest.param("test_guards::test_queue", "tests/scaling/test_guards.py::test_queue", id="with its file"),
        pytest.param("test_full", "tests/scaling/test_guards.py::TestKv::test_full", id="in a class"),
        pytest.param("test_rights", "e2e/apiserver/test_rights.py::test_rights", id="in a file of tests alone"),
    ],
)
def test_a_guard(guard: str, wanted: str, root: Path):
    assert id_of_test(guard, root) == wanted


@pytest.mark.parametrize(
    ("guard", "why"),
    [
        pytest.param("test_queue", "defined 2 times.*test_limits.py, .*test_guards.py", id="in two files"),
        pytest.param("test_nothing", "`test_nothing` is not defined", id="nowhere"),
        pytest.param("test_limits::test_full", "is not defined", id="in another file"),
    ],
)
def test_a_missing_or_repeated_guard_is_refused(guard: str, why: str, root: Path):
    with pytest.raises(MisfitError, match=why):
        id_of_test(guard, root)


def test_a_file_of_tests(root: Path):
    assert file_of_tests("test_rights", root) == "e2e/apiserver/test_rights.py"
    with pytest.raises(MisfitError, match=r"test_nothing\.py is there 0 times"):
        file_of_tests("test_nothing", root)
