"""Leader election on its own thread, in real time."""

import asyncio
import threading

import pytest

from forebay.cluster.client.kube_api import LEASES
from forebay.cluster.client.lease import Leadership
from tests.cluster.fake_api import FakeApi

NAMESPACE, NAME = "forebay", "forebay-operator"


class ClosableFakeApi(FakeApi):
    closed = False

    async def close(self) -> None:
        self.closed = True


def test_the_thread_leads_and_releases_the_lease():
    api, acquired = ClosableFakeApi(), threading.Event()
    lost: list[str] = []

    async def connect() -> ClosableFakeApi:
        return api

    leadership = Leadership(
        connect,
        namespace=NAMESPACE,
        name=NAME,
        identity="a",
        on_acquired=acquired.set,
        on_lost=lost.append,
    )
    assert not leadership.leading
    leadership.start()
    assert acquired.wait(10.0)
    assert leadership.leading
    leadership.stop()
    assert not leadership.leading
    lease = api.find(LEASES, NAMESPACE, NAME)
    assert lease is not None
    assert "holderIdentity" not in lease["spec"]
    assert api.closed
    assert lost == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(LookupError("no such thing"), "LookupError('no such thing')", id="a fault of ours"),
        pytest.param(asyncio.CancelledError(), "CancelledError()", id="a cancellation that nobody asked for"),
    ],
)
def test_a_failure_of_the_thread_is_reported(error: BaseException, message: str):
    broken = threading.Event()
    reasons: list[str] = []

    async def connect() -> ClosableFakeApi:
        raise error

    def on_lost(reason: str) -> None:
        reasons.append(reason)
        broken.set()

    leadership = Leadership(connect, namespace=NAMESPACE, name=NAME, identity="a", on_lost=on_lost)
    leadership.start()
    assert broken.wait(10.0)
    leadership.stop()
    assert reasons == [f"the lease thread failed: {message}"]
