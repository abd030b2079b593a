"""PerformanceProfiles are read once a minute for plans, and never fail a tick."""

from typing import Any

import pytest

from forebay.cluster.client.kube_api import FORBIDDEN, NOT_FOUND, ApiError
from forebay.cluster.read.performance_profiles import PERFORMANCE_PROFILES, PerformanceProfiles
from tests.cluster.fake_api import FakeApi, FakeCall

SPEC = {
    "model": "hf://meta-llama/Llama-3.1-8B-Instruct",
    "product": "NVIDIA-H100-80GB-HBM3",
    "stepMilliseconds": 8,
    "promptTokenMicroseconds": 20,
    "sequenceMicroseconds": 5,
    "kvTokenNanoseconds": 50,
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_profile(name: str, **changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": SPEC | changes}


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.put(PERFORMANCE_PROFILES, a_profile("one"))
    return api


async def test_profiles_are_ordered_by_name(api):
    api.put(PERFORMANCE_PROFILES, a_profile("a-second"))
    profiles = await PerformanceProfiles(api, Clock()).read()
    assert [profile.name for profile in profiles] == ["a-second", "one"]
    assert profiles[0].profile.step_seconds == pytest.approx(0.008)


async def test_profiles_are_read_once_a_minute(api):
    clock = Clock()
    profiles = PerformanceProfiles(api, clock)
    before = await profiles.read()
    api.put(PERFORMANCE_PROFILES, a_profile("two"))
    clock.now = 59
    assert await profiles.read() == before
    clock.now = 60
    assert [profile.name for profile in await profiles.read()] == ["one", "two"]
    assert len(api.calls) == 2


async def test_an_unreadable_profile_is_ignored(api):
    api.put(PERFORMANCE_PROFILES, a_profile("broken", stepMilliseconds="fast"))
    assert [profile.name for profile in await PerformanceProfiles(api, Clock()).read()] == ["one"]


@pytest.mark.parametrize("status", [NOT_FOUND, FORBIDDEN, 0])
async def test_a_failed_list_keeps_the_profiles_read_last(api, status):
    """Without the CRD, the right or an answer: first no profiles, later those that were read last."""
    clock = Clock()
    fresh, settled = PerformanceProfiles(api, clock), PerformanceProfiles(api, clock)
    known = await settled.read()

    def refuse(call: FakeCall) -> None:
        raise ApiError(status, "No", "no")

    api.before = refuse
    clock.now = 100
    assert await fresh.read() == ()
    assert await settled.read() == known != ()
