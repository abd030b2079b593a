import asyncio
import os
import signal

import pytest

from forebay.runtime.shutdown import EXIT_BROKEN, EXIT_HUNG, EXIT_OK, Cause, Shutdown

NEVER = 3600.0


def a_shutdown(killed: list[int] | None = None, hard_stop_seconds: float = NEVER) -> Shutdown:
    return Shutdown(kill=(killed if killed is not None else []).append, hard_stop_seconds=hard_stop_seconds)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_sigterm_causes_a_graceful_stop(number: signal.Signals):
    shutdown = a_shutdown()
    shutdown.listen_to_signals()
    os.kill(os.getpid(), number)
    cause = await asyncio.wait_for(shutdown.decided(), 5.0)
    assert cause == Cause(EXIT_OK, f"{number.name} received")
    assert cause.graceful


async def test_a_fatal_cause_may_come_from_another_thread():
    shutdown = a_shutdown()
    await asyncio.to_thread(shutdown.end_from_thread, EXIT_BROKEN, "the observer ended")
    cause = await asyncio.wait_for(shutdown.decided(), 5.0)
    assert (cause.code, cause.graceful) == (EXIT_BROKEN, False)


async def test_the_first_cause_counts():
    shutdown = a_shutdown()
    shutdown.end(EXIT_BROKEN, "the observer ended")
    shutdown.end(EXIT_OK, "SIGTERM received")
    assert (await shutdown.decided()).code == EXIT_BROKEN


@pytest.mark.parametrize(("code", "exit_code"), [(EXIT_OK, EXIT_HUNG), (EXIT_BROKEN, EXIT_BROKEN)])
async def test_a_hanging_stop_is_killed_with_a_nonzero_exit_code(code: int, exit_code: int):
    loop = asyncio.get_running_loop()
    killed: asyncio.Future[int] = loop.create_future()

    def kill(given: int) -> None:
        loop.call_soon_threadsafe(killed.set_result, given)

    shutdown = Shutdown(kill=kill, hard_stop_seconds=0.01)
    shutdown.end(code, "a test")
    assert await asyncio.wait_for(killed, 5.0) == exit_code
