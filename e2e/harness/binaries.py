"""Builds the cluster's binaries once per machine and keeps them outside the checkout.

The key is name and version, so a fresh clone reuses what another one built, and two versions live side by side. A
build happens in a scratch folder and is renamed into place when it is complete: a killed build leaves no half binary.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from e2e.harness.failure import HarnessError
from e2e.harness.progress import Report, working_on
from e2e.harness.recipes import OLDEST_GO, Recipe

LOCK_PAUSE_SECONDS = 0.1
GO_PLACES = ("/usr/local/go/bin", "/usr/lib/go/bin")


def cache_directory() -> Path:
    """`FOREBAY_CACHE`, else `forebay` below the user's cache folder."""
    if given := os.environ.get("FOREBAY_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forebay"


def binary(recipe: Recipe, command: str | None = None) -> Path:
    """Path of the recipe's binary, or of one of the commands it answers to; builds it when it is missing."""
    folder = _folder(recipe)
    if not folder.is_dir():
        _build_once(recipe, folder)
    return folder / (command or recipe.name)


def ensure(recipes: tuple[Recipe, ...]) -> None:
    for recipe in recipes:
        binary(recipe)


def _folder(recipe: Recipe) -> Path:
    # A changed recipe of the same version must not find the old result.
    mark = hashlib.sha256(repr(recipe).encode()).hexdigest()[:8]
    return cache_directory() / "bin" / f"{recipe.name}-{recipe.version}-{mark}"


def _build_once(recipe: Recipe, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_on(f"building {recipe.name} {recipe.version}") as report:
        waits = partial(report, "waiting for another build of the same binary")
        with exclusively(folder.parent / f"{folder.name}.lock", waits):
            if not folder.is_dir():
                _build(recipe, folder, report)


@contextmanager
def exclusively(path: Path, waits: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Allows one process at a time; the kernel releases the lock when its holder dies. `waits` is called repeatedly."""
    with path.open("w") as lock:
        while not _locked(lock):
            waits()
            time.sleep(LOCK_PAUSE_SECONDS)
        yield


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build(recipe: Recipe, folder: Path, report: Report) -> None:
    scratch = cache_directory() / "scratch" / folder.name
    shutil.rmtree(scratch, ignore_errors=True)
    result = scratch / "result"
    result.mkdir(parents=True)
    go = _Go(scratch)
    (scratch / "go.mod").write_text(recipe.go_mod(go))
    if recipe.main:
        (scratch / "main.go").write_text(recipe.main)
    go.build(recipe, result / recipe.name, report)
    for name in recipe.answers_to:
        (result / name).symlink_to(recipe.name)
    result.rename(folder)
    shutil.rmtree(scratch)


class _Go:
    """The go command in one module's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._command = _find_go()
        # The module's go.mod names only what it needs itself; -mod=mod lets Go complete it, by rule and not by date.
        self._environment = os.environ | {"GOFLAGS": "-mod=mod -buildvcs=false", "CGO_ENABLED": "0", "GOWORK": "off"}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._command, *arguments], cwd=self._folder, env=self._environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise HarnessError(f"go {' '.join(arguments)} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def build(self, recipe: Recipe, output: Path, report: Report) -> None:
        command = [self._command, "build", "-v", "-trimpath", "-ldflags", recipe.link_flags, "-o", str(output)]
        process = subprocess.Popen(
            [*command, recipe.package],
            cwd=self._folder,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert process.stderr is not None
        downloaded = compiled = 0
        said: list[str] = []
        for line in process.stderr:
            said = [*said[-40:], line]
            if line.startswith("go: downloading"):
                downloaded += 1
            elif not line.startswith("go: "):
                compiled += 1
            report(f"{downloaded} modules fetched, {compiled} packages compiled")
        if process.wait() != 0:
            raise HarnessError(f"building {recipe.name} {recipe.version} failed:\n{''.join(said).strip()}")


def _find_go() -> str:
    wanted = ".".join(map(str, OLDEST_GO))
    found = shutil.which("go") or next((f"{place}/go" for place in GO_PLACES if Path(place, "go").exists()), None)
    if found is None:
        raise HarnessError(
            f"The cluster's parts are compiled, and there is no go command; install Go {wanted} or newer (go.dev/dl), "
            "or set KUBECONFIG to a cluster of your own."
        )
    said = subprocess.run([found, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    version = re.match(r"go(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < OLDEST_GO:
        raise HarnessError(f"{found} is {said or 'of an unknown version'}; install Go {wanted} or newer (go.dev/dl).")
    return found
