import asyncio
import os
import signal

import pytest

from forebay.runtime.shutdown import EXIT_HUNG, EXIT_LEASE_LOST, EXIT_OK, Cause, Shutdown

NEVER = 3600.0


def an_ending(killed: list[int] | None = None, hard_stop_seconds: float = NEVER) -> Shutdown:
    return Shutdown(kill=(killed if killed is not None else []).append, hard_stop_seconds=hard_stop_seconds)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_asks_for_a_graceful_end(number: signal.Signals):
    ending = an_ending()
    ending.listen_to_signals()
    os.kill(os.getpid(), number)
    cause = await asyncio.wait_for(ending.decided(), 5.0)
    assert cause == Cause(EXIT_OK, f"{number.name} received")
    assert cause.graceful


async def test_a_lost_lease_is_no_graceful_end_and_may_be_told_from_another_thread():
    ending = an_ending()
    await asyncio.to_thread(ending.end_from_thread, EXIT_LEASE_LOST, "the lease is lost")
    cause = await asyncio.wait_for(ending.decided(), 5.0)
    assert (cause.code, cause.graceful) == (EXIT_LEASE_LOST, False)


async def test_the_first_cause_counts():
    ending = an_ending()
    ending.end(EXIT_LEASE_LOST, "the lease is lost")
    ending.end(EXIT_OK, "SIGTERM received")
    assert (await ending.decided()).code == EXIT_LEASE_LOST


@pytest.mark.parametrize(("code", "killed_with"), [(EXIT_OK, EXIT_HUNG), (EXIT_LEASE_LOST, EXIT_LEASE_LOST)])
async def test_a_stop_that_hangs_is_cut_short_and_never_looks_like_success(code: int, killed_with: int):
    loop = asyncio.get_running_loop()
    killed: asyncio.Future[int] = loop.create_future()

    def kill(given: int) -> None:
        loop.call_soon_threadsafe(killed.set_result, given)

    ending = Shutdown(kill=kill, hard_stop_seconds=0.01)
    ending.end(code, "a test")
    assert await asyncio.wait_for(killed, 5.0) == killed_with
