"""Progress of work that takes minutes: a live display on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Protocol

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

QUIET_SECONDS = 30.0
"""Seconds between two plain lines about the same work."""

console = Console(stderr=True, highlight=False)
_displays: list[Progress] = []


class Report(Protocol):
    """Receives the current step of the work; may be called at any rate."""

    def __call__(self, at: str) -> None: ...


@contextmanager
def working_on(title: str) -> Iterator[Report]:
    """Shows `title`, its current step and its duration, and at the end the total duration."""
    began = time.monotonic()
    if console.is_terminal:
        with _live(title) as report:
            yield report
    else:
        console.print(title, soft_wrap=True)
        yield _Lines(title)
    console.print(f"{title}: {time.monotonic() - began:.1f} s", soft_wrap=True)


@contextmanager
def _live(title: str) -> Iterator[Report]:
    """One line of the display; nested work adds lines below."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[at]}"))
    outer = _displays[-1] if _displays else None
    display = outer or Progress(*columns, console=console, transient=True)
    _displays.append(display)
    task = display.add_task(title, total=None, at="")
    try:
        with nullcontext() if outer else display:
            yield lambda at: display.update(task, at=at)
    finally:
        display.remove_task(task)
        _displays.pop()


class _Lines:
    def __init__(self, title: str) -> None:
        self._title = title
        self._began = self._said = time.monotonic()

    def __call__(self, at: str) -> None:
        now = time.monotonic()
        if now - self._said >= QUIET_SECONDS:
            self._said = now
            console.print(f"{self._title}: {at}, {now - self._began:.0f} s", soft_wrap=True)
