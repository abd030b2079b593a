"""A peer that costs less than Forebay and keeps less is also played at settings that keep as much."""

from collections.abc import Sequence
from typing import Any

import pytest

from bench.matched import matched
from forebay.simulation.peers.peer_grid import PeerSetting
from tests.bench.test_policies_page import a_played, a_policy

KEPT = {"0.3": (0.9951, 13.0), "0.2": (0.997, 20.0), "0.15": (0.998, 30.0)}
OURS = a_policy("Forebay", 0.9955, gpuHours=14.0)


def play(seed: int, settings: Sequence[PeerSetting]) -> list[dict[str, Any]]:
    """Attainment falls by a hundredth of a percent per seed."""
    rows = []
    for entry in settings:
        attainment, hours = KEPT.get(entry.target.split()[0], (0.9, 40.0))
        rows.append(a_policy(entry.rule, attainment - 0.0001 * seed, target=entry.target, gpuHours=hours))
    return rows


def added(*peers: dict[str, Any]) -> list[tuple[str, str]]:
    results = matched(a_played([OURS, *peers], [OURS, *peers]), play)
    first, second = (
        [(row["name"], row["target"]) for row in run["policies"][1 + len(peers) :]] for run in results["runs"]
    )
    assert first == second, "a row of each seed"
    return first


def undercuts(**fields: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"attainment": 0.991, "target": "0.4 of the SLO batch", "gpuHours": 12.0} | fields
    return a_policy("HPA in flight (tuned)", **row)


@pytest.mark.parametrize(
    ("peer", "rows"),
    [
        pytest.param(undercuts(), [("HPA in flight (matched)", "0.2 of the SLO batch")], id="the next that is enough"),
        pytest.param(undercuts(attainment=0.98), [], id="who keeps too little undercuts nobody"),
        pytest.param(undercuts(gpuHours=15.0), [], id="nor who spends more"),
        pytest.param(undercuts(attainment=0.996), [], id="who keeps more is better, not cheaper"),
        pytest.param(undercuts(target="0.02 of the SLO batch"), [], id="nothing is more careful than the edge"),
        pytest.param(
            undercuts(target="0.15 of the SLO batch"),
            [("HPA in flight (matched)", "0.1 of the SLO batch")],
            id="none is enough: the one that keeps most, the next of equals",
        ),
    ],
)
def test_a_cheaper_setting_is_raised_until_it_keeps_the_same_slo(peer, rows):
    assert added(peer) == rows
