"""A pytest plugin that writes down, for the runner, how each test ended and whose code it ran.

A fault counts as found only when a test ran it and said no. A patch that breaks an import, a fixture or a name would
turn any test red and prove nothing, so these are told apart.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

PASSED, RED, BROKEN = "passed", "red", "broken"
NOT_A_VERDICT = (SyntaxError, ImportError, NameError, AttributeError, TypeError)
"""What a patch that does not run raises."""
OURS = ("forebay", "tests", "e2e", "prove")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--verdict", type=Path, help="file to write the outcome of every test to, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Clerk(config.getoption("--verdict"), config.rootpath))


class _Clerk:
    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = root
        self._outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or report.failed:
            self._outcomes.setdefault(item.nodeid, _outcome(report, call))
        return report

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps({"outcomes": self._outcomes, "strangers": sorted(self._strangers())}))

    def _strangers(self) -> Iterator[str]:
        """Files of our packages that were imported from elsewhere than this copy, here or in a child process."""
        imported = [
            Path(path)
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in OURS and (path := getattr(module, "__file__", None))
        ]
        ask = [sys.executable, "-c", "import forebay; print(forebay.__file__)"]
        child = subprocess.run(ask, cwd="/", capture_output=True, text=True)
        for path in (*imported, Path(child.stdout.strip() or "(forebay cannot be imported in a child process)")):
            if not path.resolve().is_relative_to(self._root.resolve()):
                yield str(path)


def _outcome(report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    if report.passed:
        return PASSED
    if call.excinfo is None or report.when != "call":
        return f"{BROKEN}: {report.when}"
    broken = [error for error in _leaves(call.excinfo.value) if isinstance(error, NOT_A_VERDICT)]
    return f"{BROKEN}: {broken[0]!r}" if broken else RED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
