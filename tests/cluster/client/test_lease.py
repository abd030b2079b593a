"""Leader election in virtual time: terms never overlap, and end in time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from forebay.cluster.client.kube_api import LEASES, ApiError
from forebay.cluster.client.lease import ClosableApi, Election, Leadership, LeaseTimes, steady_clock
from tests.cluster.fake_api import FakeApi, FakeCall, lost_answer
from tests.controller.virtual_time import in_virtual_time, now

NAMESPACE, NAME = "forebay", "forebay-operator"


def an_election(identity: str = "a") -> Election:
    return Election(namespace=NAMESPACE, name=NAME, identity=identity, times=LeaseTimes(), monotonic=now, wall=now)


def lease(api: FakeApi) -> dict[str, Any]:
    lease = api.find(LEASES, NAMESPACE, NAME)
    assert lease is not None
    return lease["spec"]  # type: ignore[no-any-return]


def down(call: FakeCall) -> None:
    raise ApiError(0, "ClientConnectorError", "connection refused")


@dataclass
class Candidate:
    """A process that takes part in the election, without its thread."""

    api: FakeApi
    identity: str
    changes: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        async def connect() -> ClosableApi:
            raise AssertionError("the thread is not started here")

        self.leadership = Leadership(
            connect,
            namespace=NAMESPACE,
            name=NAME,
            identity=self.identity,
            on_acquired=lambda: self.changes.append((now(), "acquired")),
            on_lost=lambda reason: self.changes.append((now(), reason)),
            monotonic=now,
            wall=now,
        )

    @property
    def leading(self) -> bool:
        return self.leadership.leading

    @contextlib.asynccontextmanager
    async def contending(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.leadership.contend(self.api, asyncio.Event()))
        try:
            await asyncio.sleep(0.001)
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@in_virtual_time
async def test_a_missing_lease_is_created():
    api, candidate = FakeApi(), an_election()
    await candidate.attempt(api)
    assert candidate.leading
    assert lease(api) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "1970-01-01T00:00:00.000000Z",
        "acquireTime": "1970-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


@in_virtual_time
async def test_a_term_ends_by_the_clock_whatever_the_thread_does():
    candidate = an_election()
    await candidate.attempt(FakeApi())
    await asyncio.sleep(9.99)
    assert candidate.leading
    await asyncio.sleep(0.02)
    assert not candidate.leading


@in_virtual_time
async def test_a_term_counts_from_before_the_renewal_was_sent():
    api, candidate = FakeApi(), an_election()
    await candidate.attempt(api)

    async def slow_patch(*arguments: Any, **named: Any) -> bytes:
        answer = await FakeApi.patch(api, *arguments, **named)
        await asyncio.sleep(4.0)
        return answer

    api.patch = slow_patch  # type: ignore[method-assign]
    await candidate.attempt(api)
    assert (now(), candidate.seconds_left) == (4.0, 6.0)


@in_virtual_time
async def test_the_holder_renews_without_reading():
    api, candidate = FakeApi(), an_election()
    for _ in range(3):
        await candidate.attempt(api)
        await asyncio.sleep(2.0)
    assert [call.verb for call in api.calls] == ["get", "create", "patch", "patch"]
    assert lease(api)["renewTime"] == "1970-01-01T00:00:04.000000Z"


@in_virtual_time
async def test_a_standby_waits_a_whole_term_of_silence_by_its_own_clock():
    api, holder, standby = FakeApi(), an_election("a"), an_election("b")
    await holder.attempt(api)
    for _ in range(10):
        await holder.attempt(api)
        await standby.attempt(api)
        assert (holder.leading, standby.leading) == (True, False)
        await asyncio.sleep(2.0)
    silent_since = now() - 2.0
    while not standby.leading:
        await asyncio.sleep(standby.next_attempt_seconds)
        await standby.attempt(api)
    assert now() - silent_since == pytest.approx(15.0)
    assert not holder.leading
    assert (lease(api)["holderIdentity"], lease(api)["leaseTransitions"]) == ("b", 1)


@in_virtual_time
async def test_a_lease_last_renewed_long_ago_is_still_watched_for_a_whole_term():
    """The clock of the holder may be years behind that of the standby."""
    api, standby = FakeApi(), an_election("b")
    spec = {"holderIdentity": "a", "renewTime": "1970-01-01T00:00:00Z", "leaseDurationSeconds": 15}
    api.put(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec})
    await asyncio.sleep(1e6)
    await standby.attempt(api)
    await asyncio.sleep(14.9)
    await standby.attempt(api)
    assert not standby.leading
    await asyncio.sleep(0.1)
    await standby.attempt(api)
    assert standby.leading


@in_virtual_time
async def test_a_longer_term_written_by_the_holder_is_respected():
    api, standby = FakeApi(), an_election("b")
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 60}
    api.put(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec})
    await standby.attempt(api)
    await asyncio.sleep(59.0)
    await standby.attempt(api)
    assert not standby.leading
    await asyncio.sleep(1.0)
    await standby.attempt(api)
    assert standby.leading


@in_virtual_time
async def test_of_two_that_acquire_at_once_one_leads():
    api, one, other = FakeApi(), an_election("a"), an_election("b")
    api.put(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": {"holderIdentity": None}})

    def other_is_quicker(call: FakeCall) -> None:
        if call.verb == "patch":
            api.before = lambda call: None
            spec = {"holderIdentity": "b", "leaseDurationSeconds": 15}
            api.put(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": spec})

    api.before = other_is_quicker
    with pytest.raises(ApiError, match="409 Conflict"):
        await one.attempt(api)
    await other.attempt(api)
    assert (one.leading, other.leading) == (False, True)


@in_virtual_time
async def test_a_renewal_whose_answer_was_lost_is_recognised():
    api, candidate = FakeApi(), an_election()
    await candidate.attempt(api)

    def lose(call: FakeCall) -> None:
        raise lost_answer()

    api.after = lose
    with pytest.raises(ApiError):
        await candidate.attempt(api)
    api.after = lambda call: None
    await asyncio.sleep(2.0)
    await candidate.attempt(api)
    assert candidate.seconds_left == 10.0
    assert lease(api)["leaseTransitions"] == 0


@in_virtual_time
async def test_a_lease_taken_by_force_ends_the_term_at_once():
    api, candidate = FakeApi(), an_election()
    await candidate.attempt(api)
    api.put(LEASES, {"metadata": {"namespace": NAMESPACE, "name": NAME}, "spec": {"holderIdentity": "thief"}})
    await candidate.attempt(api)
    assert not candidate.leading


@in_virtual_time
async def test_a_released_lease_is_acquired_at_once():
    api, holder, standby = FakeApi(), an_election("a"), an_election("b")
    await holder.attempt(api)
    await standby.attempt(api)
    await holder.release(api)
    assert not holder.leading
    await standby.attempt(api)
    assert standby.leading


@in_virtual_time
async def test_a_standby_releases_nothing():
    api, holder, standby = FakeApi(), an_election("a"), an_election("b")
    await holder.attempt(api)
    await standby.attempt(api)
    await standby.release(api)
    assert lease(api)["holderIdentity"] == "a"


@in_virtual_time
async def test_a_dead_leader_is_followed_within_17_s():
    """15 s without a renewal, and up to one retry period until the last renewal was observed."""
    api = FakeApi()
    one, other = Candidate(api, "a"), Candidate(api, "b")
    async with one.contending():
        standby = asyncio.create_task(other.leadership.contend(api, asyncio.Event()))
        await asyncio.sleep(61.0)
        assert (one.leading, other.leading) == (True, False)
    died_at = now()
    await asyncio.sleep(20.0)
    ((acquired_at, _),) = other.changes
    assert 13.0 <= acquired_at - died_at <= 17.0
    assert [change for _, change in one.changes] == ["acquired"]
    standby.cancel()


@in_virtual_time
async def test_terms_never_overlap_under_random_outages():
    """Checks every 0.1 s of an hour in which the connection of each candidate comes and goes."""
    store = FakeApi()
    up = {"a": True, "b": True}

    class Link(FakeApi):
        async def get(self, *arguments: Any, **named: Any) -> bytes:
            return await self._over(store.get, *arguments, **named)

        async def create(self, *arguments: Any, **named: Any) -> bytes:
            return await self._over(store.create, *arguments, **named)

        async def patch(self, *arguments: Any, **named: Any) -> bytes:
            return await self._over(store.patch, *arguments, **named)

        async def _over(self, call: Any, *arguments: Any, **named: Any) -> bytes:
            await asyncio.sleep(0.3)
            if not up[self.name]:
                raise lost_answer()
            answer: bytes = await call(*arguments, **named)
            await asyncio.sleep(0.3)
            if not up[self.name]:
                raise lost_answer()
            return answer

        name = ""

    candidates = []
    for name in up:
        link = Link()
        link.name = name
        candidates.append(Candidate(link, name))

    async def for_ever(candidate: Candidate) -> None:
        while True:
            await candidate.leadership.contend(candidate.api, asyncio.Event())

    tasks = [asyncio.create_task(for_ever(candidate)) for candidate in candidates]
    led = set()
    for step in range(36_000):
        up["a"], up["b"] = (step // 170) % 3 != 1, (step // 230) % 4 != 1
        leaders = [candidate.identity for candidate in candidates if candidate.leading]
        assert len(leaders) <= 1
        led.update(leaders)
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    assert led == {"a", "b"}


@in_virtual_time
async def test_on_lost_is_called_as_soon_as_the_term_ends():
    api = FakeApi()
    candidate = Candidate(api, "a")
    async with candidate.contending():
        await asyncio.sleep(3.0)
        renewed_at = 2.001
        api.before = down
        await asyncio.sleep(20.0)
    (_, acquired), (lost_at, reason) = candidate.changes
    assert acquired == "acquired"
    assert lost_at == pytest.approx(renewed_at + 10.0, abs=0.01)
    assert "connection refused" in reason


@in_virtual_time
async def test_a_hanging_server_cannot_hold_the_thread_beyond_the_term():
    api = FakeApi()
    candidate = Candidate(api, "a")

    async def hang(*arguments: Any, **named: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with candidate.contending():
        await asyncio.sleep(1.0)
        api.patch = hang  # type: ignore[method-assign]
        api.get = hang  # type: ignore[method-assign]
        await asyncio.sleep(30.0)
    assert [moment for moment, _ in candidate.changes] == [
        pytest.approx(0.0, abs=0.01),
        pytest.approx(10.0, abs=0.01),
    ]
    assert "did not answer" in candidate.changes[1][1]


@pytest.mark.parametrize(
    ("duration", "deadline", "retry"), [(10.0, 10.0, 2.0), (15.0, 10.0, 10.0), (15.0, 10.0, 0.0), (5.0, 10.0, 2.0)]
)
def test_times_that_allow_two_leaders_are_refused(duration, deadline, retry):
    with pytest.raises(ValueError, match="must grow"):
        LeaseTimes(duration, deadline, retry)


def test_the_clock_never_goes_back():
    first = steady_clock()
    assert steady_clock() >= first
