"""`operator/` is a source root: a package of that name would shadow the standard library's `operator`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_source_root_is_not_a_package():
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_standard_library_wins_from_the_root():
    answer = subprocess.run(
        [sys.executable, "-c", "import operator; print(operator.eq(1, 1))"], cwd=ROOT, capture_output=True, text=True
    )
    assert answer.stdout == "True\n", answer.stderr


def test_no_module_takes_a_standard_library_name():
    ours = {path.stem for path in (ROOT / "operator" / "forebay").rglob("*.py")} - {"__init__", "__main__"}
    assert ours & sys.stdlib_module_names == set()
