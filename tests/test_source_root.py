"""`operator/` is a source root: a package of that name would shadow the standard library's `operator`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "operator" / "forebay"


def module_names(package: Path) -> set[str]:
    """The name of every module and of every folder that holds one, at any depth."""
    modules = [path.relative_to(package) for path in package.rglob("*.py")]
    return {part for path in modules for part in path.with_suffix("").parts} - {"__init__", "__main__"}


def test_the_source_root_is_not_a_package():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_standard_library_wins_from_the_root():
    answer = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.eq(1, 1))"], cwd=ROOT, capture_output=True, text=True
    )
    assert answer.stdout == "True\n", answer.stderr


def test_no_module_or_folder_takes_a_standard_library_name():
    assert module_names(PACKAGE) & sys.stdlib_module_names == set()


def test_folders_are_read_at_any_depth(tmp_path: Path):
    module = tmp_path / "cluster" / "calendar" / "views" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.touch()
    (tmp_path / "planner.py").touch()
    assert module_names(tmp_path) == {"cluster", "calendar", "views", "planner"}
