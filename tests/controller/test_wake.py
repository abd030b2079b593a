import asyncio

from forebay.controller.wake import Wake
from tests.controller.virtual_time import in_virtual_time, now


@in_virtual_time
async def test_without_a_change_the_wait_takes_its_full_time():
    assert await Wake(debounce_seconds=1.0).next(5.0) == ()
    assert now() == 5.0


@in_virtual_time
async def test_a_change_ends_the_wait_after_the_debounce():
    wake = Wake(debounce_seconds=1.0)
    asyncio.get_running_loop().call_later(2.0, wake.wake, "pod")
    assert await wake.next(5.0) == ("pod",)
    assert now() == 3.0


@in_virtual_time
async def test_a_burst_of_changes_causes_one_tick_without_delaying_it_further():
    wake = Wake(debounce_seconds=1.0)
    for step in range(50):
        asyncio.get_running_loop().call_later(0.1 * step, wake.wake, "service" if step == 0 else "pod")
    assert await wake.next(5.0) == ("service", "pod")
    assert now() == 1.0


@in_virtual_time
async def test_skip_debounce_ends_the_wait_at_once():
    wake = Wake(debounce_seconds=1.0)
    asyncio.get_running_loop().call_later(2.0, lambda: wake.wake("scrape", skip_debounce=True))
    assert await wake.next(5.0) == ("scrape",)
    assert now() == 2.0
    asyncio.get_running_loop().call_later(1.0, wake.wake, "pod")
    assert await wake.next(5.0) == ("pod",)
    assert now() == 4.0


@in_virtual_time
async def test_a_change_during_a_tick_is_not_lost():
    wake = Wake(debounce_seconds=1.0)
    wake.wake("scrape")
    await asyncio.sleep(3.0)
    assert await wake.next(5.0) == ("scrape",)
    assert now() == 4.0


@in_virtual_time
async def test_each_reason_is_returned_once():
    wake = Wake(debounce_seconds=1.0)
    wake.wake("pod")
    await wake.next(5.0)
    assert await wake.next(5.0) == ()


@in_virtual_time
async def test_changes_do_not_shorten_a_pause():
    wake = Wake(debounce_seconds=1.0)
    wake.wake("pod")
    await wake.pause(30.0)
    assert now() == 30.0


@in_virtual_time
async def test_stop_ends_waits_and_pauses_at_once():
    wake = Wake(debounce_seconds=1.0)
    asyncio.get_running_loop().call_later(2.0, wake.stop)
    await wake.pause(30.0)
    await wake.next(5.0)
    await wake.next(5.0)
    assert now() == 2.0


@in_virtual_time
async def test_a_wake_from_another_thread_arrives():
    wake = Wake(debounce_seconds=0.0)
    await asyncio.to_thread(wake.wake_from_thread, "service")
    assert await wake.next(5.0) == ("service",)
