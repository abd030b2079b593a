"""The demo's live view, on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from e2e.demo.load import Figures
from e2e.demo.view import BAR_EVERY_SECONDS, View, bars

SERVICE = {
    "status": {
        "replicas": {"ready": 3, "loading": 2, "draining": 0, "desired": 5},
        "load": {"queue": 0, "kvPercent": 9},
        "decision": {"rule": "schedule_floor", "because": "five are asked for"},
        "schedules": [{"name": "launch", "state": "Warming", "message": "5 replicas from noon; 3 serve."}],
    }
}
FIGURES = Figures(90, 80, 0, 10, requests_per_second=4.2, time_to_first_token_p95=0.7, inter_token_latency_p50=0.033)
EVENTS = [{"reason": "ScaledUp", "message": "From 3 to 5 replicas."}]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], "", id="nothing yet"),
        pytest.param([0, 0], "  ", id="zeros are empty"),
        pytest.param([1, 2, 4, 8], "▁▂▄█", id="the largest value is full"),
    ],
)
def test_bars(values, expected):
    assert bars(values) == expected


def test_elsewhere_each_event_is_told_once_and_a_line_every_few_seconds():
    clock, written = Clock(), io.StringIO()
    with View("chat", Console(file=written, width=200), clock, phase="ramp") as view:
        for clock.now in (0.0, 1.0, 6.0):
            view.show(SERVICE, EVENTS, FIGURES)
    lines = [[cell.strip() for cell in line.split("|")] for line in written.getvalue().splitlines()]
    assert [line[0] for line in lines] == ["ScaledUp: From 3 to 5 replicas.", "0 s  ramp", "6 s  ramp"]
    assert lines[-1][1:] == [
        "4.2 requests/s",
        "replicas 3 ready, 2 loading",
        "queue  0",
        "TTFT p95  700 ms",
        "streams 10 open 80 whole 0 cut",
    ]


def test_a_terminal_shows_decision_schedule_and_newest_events():
    written = io.StringIO()
    with View("chat", Console(file=written, width=80, force_terminal=True, color_system=None), Clock()) as view:
        view.show(SERVICE, EVENTS, FIGURES)
    text = written.getvalue()
    for shown in (
        "schedule_floor: five are asked for",
        "launch Warming: 5 replicas",
        "ScaledUp: From",
        "TTFT p95 700 ms",
    ):
        assert shown in text


def test_there_is_a_bar_for_every_so_many_seconds():
    clock = Clock()
    with View("chat", Console(file=io.StringIO()), clock) as view:
        for clock.now in (0.0, 1.0, BAR_EVERY_SECONDS, BAR_EVERY_SECONDS + 1.0):
            view.show(SERVICE, EVENTS, FIGURES)
    assert (view.replicas, view.rates) == ([3, 3], [4.2, 4.2])
