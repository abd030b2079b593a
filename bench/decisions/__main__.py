"""`python -m bench.decisions --against COMMIT`: do this checkout and that commit decide alike?

Both play the closed-loop scenarios, the stories and 500 seeds of `any_world`. Every call of `plan()` is compared: the
calls it becomes (verb, path, body), statuses and events. Recordings of commits are kept in the cache.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.decisions.checkouts import CHECKOUT, laid_out
from bench.decisions.wording import REWORDED

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "forebay" / "decisions"
SUITES = (
    "test_closed_loop.py",
    "test_scenarios.py",
    "test_broken_metrics.py",
    "test_stories.py",
    "test_schedule_loop.py",
)
MOST_SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.decisions", description=__doc__)
    parser.add_argument("--against", required=True, help="the commit to compare this checkout with")
    parser.add_argument("--only", help="a part of the names of the suites to play")
    arguments = parser.parse_args()
    commit = _git("rev-parse", f"{arguments.against}^{{commit}}")
    suites = tuple(suite for suite in (*SUITES, "any_world") if (arguments.only or "") in suite)
    with tempfile.TemporaryDirectory(prefix="forebay-decisions-") as folder:
        before = _recording_of(commit, suites, Path(folder))
        after = Path(folder) / "after.gz"
        _record(CHECKOUT, suites, after)
        return _compare(before, after)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.strip()


def _recording_of(commit: str, suites: tuple[str, ...], folder: Path) -> Path:
    """What the commit decides, from the cache or played now."""
    sources = (HERE / "recorder.py").read_bytes() + (HERE / "recorded_worlds.py").read_bytes()
    how = hashlib.sha256(sources + " ".join(suites).encode()).hexdigest()[:12]
    kept = CACHE / f"{commit[:12]}-{how}.gz"
    if kept.exists():
        return kept
    checkout = folder / "before"
    checkout.mkdir()
    laid_out(commit, checkout)
    played = folder / "before.gz"
    _record(checkout, suites, played)
    CACHE.mkdir(parents=True, exist_ok=True)
    shutil.copy(played, kept)
    return kept


def _record(checkout: Path, suites: tuple[str, ...], into: Path) -> None:
    """Plays the suites of a checkout, and fails where one of them does."""
    with tempfile.TemporaryDirectory(prefix="forebay-recorder-") as folder:
        plugin = Path(folder)
        shutil.copy(HERE / "recorder.py", plugin / "decision_recorder.py")
        tests = [str(_found(checkout, suite)) for suite in suites if suite != "any_world"]
        if "any_world" in suites:
            shutil.copy(HERE / "recorded_worlds.py", plugin / "test_recorded_worlds.py")
            tests.append(str(plugin / "test_recorded_worlds.py"))
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "decision_recorder", "-p", "no:cacheprovider"),
                *("--hypothesis-seed=1", "--rootdir", str(checkout), "-c", str(checkout / "pyproject.toml"), *tests),
            ],
            cwd=checkout,
            env={
                # Without CI: there, Hypothesis seeds a test by its source, which may have been reworded.
                **{name: value for name, value in os.environ.items() if name != "CI"},
                "FOREBAY_SCHEDULES": "100",
                "FOREBAY_DECISIONS": str(into),
                "PYTHONPATH": f"{checkout / 'operator'}:{checkout}:{plugin}",
            },
            check=True,
        )


def _found(checkout: Path, name: str) -> Path:
    found = sorted((checkout / "tests").rglob(name))
    if len(found) != 1:
        raise SystemExit(f"{name}: found {len(found)} times below {checkout / 'tests'}, wanted once")
    return found[0]


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from lines


def _comparable(line: str) -> str:
    """Without the name of the test, which is there to find the place: a test may have been renamed."""
    return re.sub(r'"test": "(?:[^"\\\\]|\\\\.)*", ', "", line)


def _reworded(line: str) -> str:
    for pattern, replacement in REWORDED:
        line = re.sub(pattern, replacement, line)
    return line


def _compare(before: Path, after: Path) -> int:
    plans = calls = different = 0
    for old, new in itertools.zip_longest(_lines(before), _lines(after)):
        plans += 1
        calls += len(json.loads(new or "{}").get("calls", ()))
        if old is None or new is None:
            print(f"one of the two recordings ends after {plans - 1} plans")
            different += 1
            break
        if _comparable(old) == _comparable(new) or _comparable(_reworded(old)) == _comparable(new):
            continue
        different += 1
        if different <= MOST_SHOWN:
            _show(json.loads(_reworded(old)), json.loads(new))
    print(f"{plans} plans and {calls} calls compared, {different} plans differ")
    return int(different > 0)


def _show(old: dict[str, Any], new: dict[str, Any]) -> None:
    print(f"{new['test']} at {new['now']}:")
    for path, one, other in _differences(old, new, ""):
        print(f"  {path}\n    before {json.dumps(one)[:300]}\n    now    {json.dumps(other)[:300]}")


def _differences(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Where two documents differ, down to the leaves."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _differences(old.get(name), new.get(name), f"{path}/{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{path}/{index}")
    elif old != new:
        yield path, old, new


if __name__ == "__main__":
    sys.exit(main())
