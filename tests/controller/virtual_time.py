"""An event loop whose time jumps to the next timer instead of waiting for it."""

import asyncio
import functools
import inspect
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

THREAD_SECONDS = 5.0
"""How long a test without timers waits for another thread."""


class _Selector(selectors.DefaultSelector):
    """Moves the clock instead of waiting when nothing is ready."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(THREAD_SECONDS if timeout is None else 0)
        if not ready and timeout is None:
            raise AssertionError("the test waits for something that never happens")
        if not ready and timeout:
            self.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self._virtual_now = 0.0
        selector.jump = self._jump

    def _jump(self, seconds: float) -> None:
        self._virtual_now += seconds

    def time(self) -> float:
        return self._virtual_now


def now() -> float:
    """Virtual seconds since the test began."""
    return asyncio.get_running_loop().time()


def in_virtual_time(story: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Turn a coroutine function into a test in which hours take milliseconds."""

    @functools.wraps(story)
    def test(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(story(*arguments, **named))  # type: ignore[arg-type]

    del test.__wrapped__  # pytest-asyncio would find the coroutine function behind it
    test.__signature__ = inspect.signature(story)  # type: ignore[attr-defined]
    return test
