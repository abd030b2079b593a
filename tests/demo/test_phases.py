"""The demo's traffic: a recording that is played at a changing pace."""

import pytest

from e2e.demo.load import TRACE_FROM_SECONDS, Phase

RAMP = Phase("ramp", 150.0, 0.3, 0.9, rise_seconds=80.0)


@pytest.mark.parametrize(
    ("phase", "seconds", "expected"),
    [
        pytest.param(Phase("window", 90.0, 1.4, 1.4), 10.0, 14.0, id="a steady pace"),
        pytest.param(RAMP, 80.0, 48.0, id="a rise goes at the mean of its two paces"),
        pytest.param(RAMP, 100.0, 66.0, id="and then at the last one"),
    ],
)
def test_so_much_of_the_recording_is_played(phase, seconds, expected):
    assert phase.recorded_at(seconds) == pytest.approx(expected)
    assert phase.played_at(expected) == pytest.approx(seconds)


def test_arrivals_come_faster_and_faster_within_the_phase():
    arrivals = [arrival.at_seconds for arrival in RAMP.arrivals(TRACE_FROM_SECONDS)]
    first, last = sum(at < 20 for at in arrivals), sum(at >= 130 for at in arrivals)
    assert (first, last) == (46, 105)
    assert arrivals == sorted(arrivals)
    assert 0 <= arrivals[0] <= arrivals[-1] < RAMP.seconds
