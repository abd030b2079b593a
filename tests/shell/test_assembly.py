import pytest

from forebay.planner.settings import Settings
from forebay.shell.assembly import patient


@pytest.mark.parametrize(
    ("interval", "stale", "lost"),
    [
        pytest.param(5.0, 30.0, 300.0, id="a small fleet, as the flags say"),
        pytest.param(16.0, 48.0, 300.0, id="2,000 pods, asked every 16 s"),
        pytest.param(80.0, 240.0, 480.0, id="10,000 pods"),
    ],
)
def test_a_fleet_that_is_asked_less_often_is_not_silent(interval: float, stale: float, lost: float):
    settings = patient(Settings(stale_after_seconds=30.0, lost_after_seconds=300.0, max_gpus=8), interval)
    assert (settings.stale_after_seconds, settings.lost_after_seconds, settings.max_gpus) == (stale, lost, 8)
