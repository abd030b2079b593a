"""The time of the API server, learned from the `Date` of answers, while either clock is wrong or jumps."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from math import floor

import pytest

from forebay.cluster.client.server_clock import ServerClock

START = 1_750_000_000.0
HOUR = 3600.0


@dataclass
class TwoMachines:
    """The true time, a server whose clock is `server_ahead` of it, and an operator that is `local_ahead` of it."""

    true: float = START
    server_ahead: float = 0.0
    local_ahead: float = 0.0
    booted_at: float = START - 100.0
    clock: ServerClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = ServerClock(monotonic=self.monotonic, wall=lambda: self.true + self.local_ahead)

    def monotonic(self) -> float:
        return self.true - self.booted_at

    @property
    def server(self) -> float:
        return self.true + self.server_ahead

    @property
    def error(self) -> float:
        """How far the clock is ahead of the server's."""
        return self.clock.now() - self.server

    def ask(self, *, way: float = 0.0, back: float = 0.0, wait: float = 5.3) -> None:
        """Send a request, which the server answers after `way` seconds; then wait until the next one."""
        sent_at = self.monotonic()
        self.true += way
        date = formatdate(floor(self.server), usegmt=True)
        self.true += back
        self.clock.answered(date, sent_at, self.monotonic())
        self.true += wait

    def ask_often(self, times: int = 10, **answer: float) -> None:
        for _ in range(times):
            self.ask(**answer)


def set_local(ahead: float) -> Callable[[TwoMachines], None]:
    return lambda machines: setattr(machines, "local_ahead", ahead)


def set_server(ahead: float) -> Callable[[TwoMachines], None]:
    return lambda machines: setattr(machines, "server_ahead", ahead)


@pytest.mark.parametrize(
    ("local_ahead", "skew"),
    [
        pytest.param(0.0, 0.0, id="a right clock"),
        pytest.param(HOUR, HOUR, id="an hour ahead"),
        pytest.param(-HOUR, -HOUR, id="an hour behind"),
        pytest.param(2.0, 2.0, id="two seconds ahead"),
    ],
)
def test_an_operator_with_a_wrong_clock_has_the_servers_time_from_the_first_answer(local_ahead: float, skew: float):
    machines = TwoMachines(local_ahead=local_ahead)
    assert machines.clock.skew_seconds() is None
    assert machines.clock.now() == START + local_ahead
    machines.ask(wait=0.0)
    assert abs(machines.error) <= 0.5
    assert machines.clock.skew_seconds() == pytest.approx(skew, abs=0.5)
    assert machines.clock.steps == 0


@pytest.mark.parametrize(
    ("change", "skew", "steps"),
    [
        pytest.param(set_local(HOUR), HOUR, 0, id="the local clock jumps ahead an hour"),
        pytest.param(set_local(-HOUR), -HOUR, 0, id="the local clock jumps back an hour"),
        pytest.param(set_local(0.5), 0.5, 0, id="the local clock is corrected a little"),
        pytest.param(set_server(2.0), -2.0, 0, id="the server's clock is corrected a little"),
        pytest.param(set_server(HOUR), -HOUR, 1, id="the server's clock is set ahead an hour"),
        pytest.param(set_server(-HOUR), HOUR, 1, id="the server's clock is set back an hour"),
    ],
)
def test_clocks_that_jump(change: Callable[[TwoMachines], None], skew: float, steps: int):
    machines = TwoMachines()
    machines.ask_often()
    change(machines)
    machines.ask_often()
    assert abs(machines.error) <= 1.0
    assert machines.clock.skew_seconds() == pytest.approx(skew, abs=1.0)
    assert machines.clock.steps == steps
    assert not machines.clock.in_doubt


@pytest.mark.parametrize("local_ahead", [HOUR, -HOUR])
def test_a_jump_of_the_local_clock_does_not_reach_now_even_without_an_answer(local_ahead: float):
    machines = TwoMachines()
    machines.ask_often()
    before = machines.clock.now()
    machines.local_ahead = local_ahead
    machines.true += 10.0
    assert machines.clock.now() - before == pytest.approx(10.0)


def test_many_answers_place_the_clock_within_a_tenth_of_a_second_although_dates_are_whole_seconds():
    machines = TwoMachines(server_ahead=0.3)
    machines.ask_often(40, way=0.01, back=0.01, wait=5.37)
    assert abs(machines.error) <= 0.1


@pytest.mark.parametrize(
    ("way", "back"),
    [
        pytest.param(25.0, 0.0, id="the request was late"),
        pytest.param(0.0, 25.0, id="the answer was late"),
        pytest.param(12.0, 12.0, id="both were late"),
    ],
)
def test_a_late_answer_moves_nothing(way: float, back: float):
    machines = TwoMachines()
    machines.ask_often(40, wait=5.37)
    before = machines.error
    machines.ask(way=way, back=back)
    assert machines.error == pytest.approx(before)
    assert not machines.clock.in_doubt


def test_a_late_first_answer_is_corrected_by_the_next_one_and_is_no_step():
    machines = TwoMachines()
    machines.ask(way=25.0, wait=0.0)
    assert abs(machines.error) > 10.0
    machines.ask_often(3, wait=30.0)
    assert abs(machines.error) <= 1.0
    assert machines.clock.steps == 0


def test_one_wrong_date_is_doubted_and_not_believed():
    machines = TwoMachines()
    machines.ask_often()
    machines.server_ahead = HOUR
    machines.ask()
    assert machines.clock.in_doubt
    machines.server_ahead = 0.0
    assert abs(machines.error) <= 1.0
    machines.ask()
    assert not machines.clock.in_doubt
    assert machines.clock.steps == 0


def test_one_of_three_servers_with_a_wrong_clock_moves_nothing():
    machines = TwoMachines()
    for turn in range(30):
        machines.server_ahead = HOUR if turn % 3 == 2 else 0.0
        machines.ask()
    machines.server_ahead = 0.0
    assert abs(machines.error) <= 1.0
    assert machines.clock.steps == 0


def test_doubt_ends_even_if_no_two_answers_agree():
    machines = TwoMachines()
    machines.ask_often()
    for turn in range(1, 9):
        machines.server_ahead = turn * HOUR
        machines.ask()
    assert machines.clock.steps == 1


@pytest.mark.parametrize(
    "date", [None, "", "yesterday", "Sun, 31 Foo 2025 25:00:00 GMT", "Sun, 15 Jun 2025 15:06:40 -0000"]
)
def test_an_answer_without_a_readable_date_teaches_nothing(date: str | None):
    machines = TwoMachines(local_ahead=HOUR)
    machines.clock.answered(date, 0.0, 0.1)
    assert machines.clock.skew_seconds() is None
    assert machines.clock.now() == START + HOUR


def test_now_never_goes_backwards_while_the_estimate_is_corrected():
    machines = TwoMachines()
    shown = []
    for turn in range(200):
        machines.server_ahead = -0.01 * turn
        machines.ask(way=0.2 * (turn % 4), wait=0.4)
        shown.append(machines.clock.now())
    assert shown == sorted(shown)


def test_a_skew_is_logged_once_and_again_when_it_changes(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    machines = TwoMachines(local_ahead=HOUR)
    machines.ask_often()
    machines.local_ahead = 0.0
    machines.ask_often()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "3600 s ahead of" in caplog.records[0].message


def test_a_step_of_the_server_is_logged_once(caplog: pytest.LogCaptureFixture):
    machines = TwoMachines()
    machines.ask_often()
    machines.server_ahead = machines.local_ahead = -HOUR
    machines.ask_often()
    steps = [record.message for record in caplog.records if "moved by -3600 s" in record.message]
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("ahead", "written", "expected"),
    [
        pytest.param(HOUR, 10.0, 10.0 + HOUR, id="set ahead: a stamp from before moves with the clock"),
        pytest.param(HOUR, -9 * HOUR, -8 * HOUR, id="set ahead: so does one from long before"),
        pytest.param(HOUR, 100.0 + HOUR, 100.0 + HOUR, id="set ahead: a stamp from after stays"),
        pytest.param(-HOUR, 50.0, 50.0 - HOUR, id="set back: a stamp that lies ahead is from before"),
        pytest.param(-HOUR, -2 * HOUR, -3 * HOUR, id="set back: so is one from long before"),
        pytest.param(-HOUR, 100.0 - HOUR, 100.0 - HOUR, id="set back: a stamp from after stays"),
    ],
)
def test_stamps_from_before_a_step_keep_their_age(ahead: float, written: float, expected: float):
    machines = TwoMachines()
    machines.ask_often()
    machines.server_ahead = ahead
    machines.ask_often()
    assert machines.true == pytest.approx(START + 106.0)
    assert machines.clock.present(START + written) == pytest.approx(START + expected, abs=1.0)


def test_stamps_keep_their_age_over_two_steps():
    machines = TwoMachines()
    for ahead in (0.0, -HOUR, 0.0):
        machines.server_ahead = ahead
        machines.ask_often()
    assert machines.clock.present(START + 10.0) == pytest.approx(START + 10.0, abs=2.0)
    assert machines.clock.present(START + 70.0 - HOUR) == pytest.approx(START + 70.0, abs=2.0)
    assert machines.clock.present(START + 150.0) == START + 150.0


def test_without_a_step_a_stamp_stays_even_if_it_lies_ahead():
    machines = TwoMachines()
    machines.ask_often()
    assert machines.clock.present(START + HOUR) == START + HOUR
