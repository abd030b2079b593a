"""A wrong clock changes no decision: neither the operator's, nor the API server's when it is set while they run."""

from functools import cache

import pytest

from tests.builders.engines import Demand
from tests.builders.world import a_service
from tests.controller.two_clocks import BUSY, CALM, Ahead, Operated, always, jump, right

HOUR = 3600.0
BUSY_AT, CALM_AT, ENDS_AT = 300.0, 1200.0, 2700.0
DURING_LOAD = BUSY_AT + 8.0
COOLDOWN_SECONDS = 300.0


def rises_and_falls(seconds: float) -> Demand:
    return BUSY if BUSY_AT <= seconds < CALM_AT else CALM


def operated(local: Ahead = right, server: Ahead = right) -> Operated:
    service = a_service("chat", min_replicas=1, max_replicas=8)
    return Operated(service, rises_and_falls, local=local, server=server).run(ENDS_AT)


@cache
def with_right_clocks() -> Operated:
    return operated()


def during_a_drain() -> float:
    """A moment at which a replica drains and still has streams."""
    return with_right_clocks().first("StartDrain") + 3.0


def test_with_right_clocks_the_service_rises_and_falls():
    honest = with_right_clocks()
    assert honest.first("CreatePod", after=BUSY_AT) <= 10.0
    assert max(desired for _, desired in honest.desired) == 8
    assert honest.desired[-1][1] < 8
    assert honest.drains()
    assert max(honest.drains().values()) <= 40.0


@pytest.mark.parametrize("ahead", [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="back")])
@pytest.mark.parametrize("during", ["load", "a drain"])
def test_a_local_clock_that_jumps_changes_no_decision(during: str, ahead: float):
    at = DURING_LOAD if during == "load" else during_a_drain()
    jumped = operated(local=jump(ahead, at=at))
    assert jumped.decisions == with_right_clocks().decisions
    assert jumped.desired == with_right_clocks().desired


def steered_back_and_forth(seconds: float) -> float:
    return 600.0 if seconds % 60 < 30 else -600.0


@pytest.mark.parametrize(
    "local",
    [
        pytest.param(lambda seconds: -0.05 * seconds, id="one that runs 5 % slow"),
        pytest.param(lambda seconds: 0.05 * seconds, id="one that runs 5 % fast"),
        pytest.param(steered_back_and_forth, id="one that is set twice a minute"),
        pytest.param(jump(HOUR, at=DURING_LOAD + 30), id="one that jumps while replicas load"),
        pytest.param(jump(-HOUR, at=DURING_LOAD + 30), id="one that goes back while replicas load"),
    ],
)
def test_no_local_clock_changes_a_decision(local: Ahead):
    wrong = operated(local=local)
    assert wrong.decisions == with_right_clocks().decisions
    assert wrong.desired == with_right_clocks().desired


@pytest.mark.parametrize("ahead", [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="behind")])
def test_an_operator_that_starts_with_a_wrong_clock_decides_as_with_a_right_one(ahead: float):
    wrong = operated(local=always(ahead))
    assert wrong.decisions == with_right_clocks().decisions
    assert wrong.desired == with_right_clocks().desired
    assert wrong.skew_seconds == pytest.approx(ahead, abs=1.0)


@pytest.mark.parametrize("ahead", [pytest.param(HOUR, id="ahead"), pytest.param(-HOUR, id="back")])
@pytest.mark.parametrize("during", ["load", "a drain"])
def test_a_servers_clock_that_is_set_costs_no_stream_and_no_replica(during: str, ahead: float):
    honest = with_right_clocks()
    at = DURING_LOAD if during == "load" else during_a_drain()
    stepped = operated(server=jump(ahead, at=at))
    assert stepped.clock.steps == 1
    assert stepped.created() == honest.created()
    assert stepped.created_at(8) == pytest.approx(honest.created_at(8), abs=60.0)
    assert stepped.drains().keys() == {name for _, action, name in stepped.decisions if action == "DeletePod"}
    assert all(20.0 <= seconds <= 30.0 for seconds in stepped.drains().values())
    assert stepped.desired[-1][1] == honest.desired[-1][1]


@pytest.mark.parametrize(
    ("server", "local", "steps"),
    [
        pytest.param(jump(HOUR, at=DURING_LOAD + 30), right, 1, id="ahead while replicas load"),
        pytest.param(jump(-HOUR, at=DURING_LOAD + 30), right, 1, id="back while replicas load"),
        pytest.param(
            lambda seconds: HOUR if DURING_LOAD <= seconds < DURING_LOAD + 120 else 0.0,
            right,
            2,
            id="ahead and back within a cooldown",
        ),
        pytest.param(jump(HOUR, at=DURING_LOAD), jump(HOUR, at=DURING_LOAD), 1, id="both clocks at the same time"),
        pytest.param(jump(HOUR, at=DURING_LOAD), always(-HOUR), 1, id="ahead, of an operator that is behind"),
    ],
)
def test_a_servers_clock_that_is_set_is_over_within_two_cooldowns(server: Ahead, local: Ahead, steps: int):
    honest, stepped = with_right_clocks(), operated(local=local, server=server)
    assert stepped.clock.steps == steps
    assert stepped.created() == honest.created()
    assert stepped.serving_least(since=DURING_LOAD) == honest.serving_least(since=DURING_LOAD)
    for seconds in range(round(DURING_LOAD + 2 * COOLDOWN_SECONDS), round(CALM_AT), 10):
        assert stepped.desired_at(seconds) == honest.desired_at(seconds)
    assert stepped.desired[-1][1] == honest.desired[-1][1]
