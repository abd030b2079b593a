"""A scrape lane keeps to its slots, to the order it was asked in, and forgets whoever is gone."""

import asyncio

from forebay.telemetry.direct.scrape_lane import Lanes, ScrapeLane
from forebay.telemetry.signal_source import ScrapeTarget


def target(uid: str) -> ScrapeTarget:
    return ScrapeTarget(uid, "default", f"pod-{uid}", "10.0.0.1", 8000)


class Engines:
    """Engines that answer when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled: list[str] = []
        self.answers: dict[str, asyncio.Event] = {}

    async def scrape(self, of: ScrapeTarget) -> None:
        self.asked.append(of.uid)
        self.answers[of.uid] = asyncio.Event()
        try:
            await self.answers[of.uid].wait()
        except asyncio.CancelledError:
            self.cancelled.append(of.uid)
            raise

    async def answer(self, *uids: str) -> None:
        for uid in uids:
            self.answers[uid].set()
        await steps()


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_are_scraped_at_a_time_than_there_are_slots_and_in_the_order_of_asking():
    engines = Engines()
    lane = ScrapeLane(2, engines.scrape)
    for uid in "abcd":
        lane.add(target(uid))
    await steps()
    assert engines.asked == ["a", "b"]
    assert {uid: uid in lane for uid in "abcde"} == {"a": True, "b": True, "c": True, "d": True, "e": False}
    await engines.answer("b")
    assert engines.asked == ["a", "b", "c"]
    assert "b" not in lane
    await engines.answer("a", "c")
    await engines.answer("d")
    assert not lane.busy
    await lane.empty()


async def test_engines_that_are_gone_free_their_slots_and_are_not_asked():
    engines = Engines()
    lane = ScrapeLane(2, engines.scrape)
    for uid in "abcd":
        lane.add(target(uid))
    await steps()
    await lane.keep({"b", "d"})
    await steps()
    assert engines.cancelled == ["a"]
    assert engines.asked == ["a", "b", "d"]
    await lane.keep(())
    assert not lane.busy


async def test_an_engine_that_is_gone_before_its_scrape_has_begun_frees_its_slot():
    engines = Engines()
    lane = ScrapeLane(1, engines.scrape)
    lane.add(target("a"))
    await lane.keep(())
    assert engines.asked == []
    assert not lane.busy
    lane.add(target("b"))
    await steps()
    assert engines.asked == ["b"]
    await lane.keep(())


async def test_an_engine_is_in_one_lane_at_a_time():
    engines = Engines()
    lanes = Lanes(healthy=ScrapeLane(1, engines.scrape), after_failure=ScrapeLane(1, engines.scrape))
    lanes.add(target("a"), failed=False)
    lanes.add(target("a"), failed=True)
    lanes.add(target("b"), failed=False)
    lanes.add(target("c"), failed=True)
    await steps()
    assert engines.asked == ["a", "c"]
    await engines.answer("a", "c")
    await engines.answer("b")
    assert not lanes.busy
