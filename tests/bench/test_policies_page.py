"""The page of the policy benchmark names the peers that did better than Forebay."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.policies import Tuned, floor_of, tuned
from bench.policies_page import page, verdicts
from bench.policies_picture import picture, picture_name
from bench.summary import differences, summary
from forebay.simulation.compare.oracle import Needs
from forebay.simulation.peers.peer_grid import PeerSetting, grid


def a_row(name: str, attainment: float, gpu_hours: float, **fields: Any) -> dict[str, Any]:
    row = {"name": name, "target": "5", "attainment": attainment, "worst": attainment, "strict": 0.9, "recovery": None}
    row |= {"ofPossible": attainment, "impossible": 0.0, "gpuHours": gpu_hours, "oracleRatio": gpu_hours / 10}
    row |= {"firstTokenP99": 0.4, "changesPerDay": 3.0, "windows": 0, "windowsMet": 0, "shed": 0}
    return row | fields


ROOT = Path(__file__).parents[2]
NOBODY = "No peer kept as many requests in time with as few GPU-hours as Forebay."
OURS = a_row("Forebay", 0.995, 12.0)


@pytest.mark.parametrize(
    ("others", "sentences"),
    [
        pytest.param([], [NOBODY], id="alone"),
        pytest.param(
            [a_row("HPA", 0.996, 11.0)], ["As good as Forebay or better in both figures: HPA (5)."], id="better in both"
        ),
        pytest.param(
            [a_row("HPA", 0.996, 14.0)],
            [
                NOBODY,
                "More in time, for more GPU-hours: HPA (5).",
            ],
            id="more for more",
        ),
        pytest.param(
            [a_row("HPA", 0.991, 11.0), a_row("KPA", 0.98, 5.0)],
            [
                NOBODY,
                "99 % in time for fewer GPU-hours, and less in time than Forebay: HPA (5).",
            ],
            id="good enough for less",
        ),
        pytest.param([a_row("oracle", 1.0, 10.0)], [NOBODY], id="the oracle is no peer"),
    ],
)
def test_verdicts(others, sentences):
    assert list(verdicts([OURS, *others])) == sentences


def test_never_recovering_is_later_than_any_time():
    ours, never = OURS | {"recovery": 150.0}, a_row("KPA", 0.9, 20.0, recovery="never")
    sooner = a_row("HPA", 0.9, 20.0, recovery=90.0)
    assert list(verdicts([ours, never, sooner]))[-1] == "In time again sooner after the crowd arrived: HPA (5)."
    assert len(list(verdicts([ours, never]))) == 1


def tries(**by_target: tuple[float, float]) -> list[tuple[PeerSetting, dict[str, Any]]]:
    entries = [entry for entry in grid() if entry.rule == "HPA waiting"][: len(by_target)]
    return [
        (entry, {"attainment": attainment, "gpuHours": hours})
        for entry, (attainment, hours) in zip(entries, by_target.values(), strict=True)
    ]


@pytest.mark.parametrize(
    ("tried", "chosen", "inside"),
    [
        pytest.param(tries(a=(0.999, 9.0), b=(0.992, 7.0), c=(0.95, 5.0)), 1, True, id="the cheapest that keeps 99 %"),
        pytest.param(
            tries(a=(0.97, 9.0), b=(0.98, 9.5), c=(0.6, 5.0)), 1, True, id="none does: the one that keeps most"
        ),
        pytest.param(
            tries(a=(0.9705, 12.0), b=(0.97, 9.0), c=(0.6, 5.0)),
            1,
            True,
            id="none does: as good as the one that keeps most, and cheaper",
        ),
        pytest.param(
            tries(a=(0.9905, 12.0), b=(0.9899, 9.0), c=(0.6, 5.0)), 0, False, id="99 % is not a hair less when one does"
        ),
        pytest.param(tries(a=(0.999, 6.0), b=(0.999, 7.0), c=(0.999, 8.0)), 0, False, id="at the edge of the grid"),
    ],
)
def test_the_setting_that_is_chosen_on_the_tuning_traffic(tried, chosen, inside):
    assert list(tuned(tried)) == [Tuned(tried[chosen][0], inside)]


def a_policy(name: str, attainment: float, **fields: Any) -> dict[str, Any]:
    policy = {"name": name, "target": "5", "attainment": attainment, "attainmentOfPossible": attainment}
    policy |= {"impossible": 0.001, "strictAttainment": 0.9, "recoverySeconds": None, "gpuHours": 10 * attainment}
    policy |= {"oracleRatio": 1.1, "timeToFirstToken": {"p99": 0.4}, "replicaChangesPerDay": 2.0, "shed": 0}
    return policy | {"schedules": {"total": 1, "metByStart": 1}} | fields


def a_played(*runs: list[dict[str, Any]]) -> dict[str, Any]:
    inputs = {"trace": "evening", "sha256": "ab" * 32, "requests": 1000, "seconds": 3600.0, "method": ["as recorded"]}
    inputs |= {"coldStartSeconds": {"ready_seconds": 120.0}, "windowReplicas": 7}
    return {
        "suite": "B",
        "says": "an evening",
        "seeds": list(range(1, len(runs) + 1)),
        "tunings": [{"rule": "HPA", "target": "5", "insideGrid": False}],
        "runs": [{"inputs": inputs, "policies": policies} for policies in runs],
    }


def test_a_summary_has_the_mean_over_the_seeds_and_the_worst():
    played = a_played([a_policy("Forebay", 0.99)], [a_policy("Forebay", 0.97, recoverySeconds="never")])
    (row,) = summary(played)
    assert (row["attainment"], row["worst"]) == (pytest.approx(0.98), 0.97)
    assert (row["windows"], row["windowsMet"]) == (2, 2)
    assert row["recovery"] is None, "unknown when one run has no value"


def test_a_recovery_that_never_came_has_no_number():
    played = a_played(*([a_policy("Forebay", 0.9, recoverySeconds=seconds)] for seconds in (100.0, "never")))
    assert [row["recovery"] for row in summary(played)] == ["never"]


def test_robustness_shows_the_mean_and_the_worst_seed_of_those_worth_a_look(tmp_path):
    shares = {"Forebay": (0.99, 0.97), "HPA": (0.95, 0.93), "KPA": (0.5, 0.4)}
    found = [
        {
            "variant": "a × 0.8",
            "seed": seed,
            "name": name,
            "target": "5",
            "attainment": of[seed],
            "gpuHours": 8.0 + seed,
        }
        for name, of in shares.items()
        for seed in (0, 1)
    ]
    (tmp_path / "robustness").mkdir()
    played = {"suite": "quick", "says": "15 minutes", "model": "discrete", "seeds": 2, "rows": found}
    (tmp_path / "robustness" / "quick.json").write_text(json.dumps(played))
    page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| what differs | Forebay | HPA |" in text
    assert "| a × 0.8 | 98.0 % (97.0) / 8.5 | 94.0 % (93.0) / 8.5 |" in text
    assert ": KPA." in text


@pytest.mark.parametrize(
    ("now", "sentences"),
    [
        pytest.param([("Forebay", 0.991, 12.02), ("HPA", 0.95, 8.0)], [], id="as it was"),
        pytest.param([("Forebay", 0.98, 12.0), ("HPA", 0.95, 8.0)], ["Forebay (5) keeps 98.00 %"], id="fewer in time"),
        pytest.param([("Forebay", 0.99, 12.1), ("HPA", 0.95, 8.0)], ["99.00 % in time with 12.10"], id="dearer"),
        pytest.param([("Forebay", 0.99, 12.0)], ["HPA (5) is in bench/results and was not played"], id="one is gone"),
        pytest.param(
            [("Forebay", 0.99, 12.0), ("HPA", 0.95, 8.0), ("KPA", 0.9, 8.0)], ["KPA (5) is not in"], id="one is new"
        ),
    ],
)
def test_results_of_other_code_are_detected(now, sentences):
    committed = [a_row("Forebay", 0.99, 12.0), a_row("HPA", 0.95, 8.0)]
    found = list(differences(committed, [a_row(*row) for row in now]))
    assert len(found) == len(sentences)
    assert all(words in line for words, line in zip(sentences, found, strict=True))


def test_page_and_picture_are_made_from_the_results_alone(tmp_path):
    played = a_played([a_policy("Forebay", 0.99), a_policy("HPA", 0.98), a_policy("oracle", 0.995)])
    rows = list(summary(played))
    (tmp_path / "B.json").write_text(json.dumps(played | {"summary": rows}))
    page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "## B: an evening" in text
    assert "| **Forebay** | 5 | 99.00 % | 99.00 % | 90.00 % | 99.00 % | 9.90 | 1.10 | 0.40 s | 2 | 1 of 1 |" in text
    assert "floor is 7 replicas" in text
    assert "The best setting is at the edge of the grid for: HPA." in text
    assert "Even an idle replica could not have served 0.10 % of the requests in time." in text
    assert "shed |" not in text, "an empty column is left out"
    assert "Other cold starts" not in text
    picture(rows, "an evening", tmp_path, "B")
    assert (tmp_path / picture_name("B")).stat().st_size > 10_000


def test_the_floor_of_scheduled_windows_is_what_half_of_their_time_needed():
    needs = Needs(60.0, (9, 1, 2, 3, 4, 9))
    assert floor_of(needs, [(60.0, 300.0)]) == 2
    assert floor_of(needs, [(0.0, 60.0), (300.0, 360.0)]) == 9
    assert floor_of(needs, []) == 0


def test_the_committed_page_is_made_from_the_results_and_says_what_was_refuted(tmp_path):
    made = tmp_path / "benchmarks.md"
    page(ROOT / "bench" / "results", made)

    assert made.read_text() == (ROOT / "docs" / "benchmarks.md").read_text()
    a, b = (made.read_text().split(f"\n## {suite}: ", 1)[1].split("\n## ", 1)[0] for suite in ("A", "B"))
    assert NOBODY not in a + b
    assert all(number in a for number in ("99.36 %", "39.9", "99.20 %", "41.0"))
    assert "no recording" in b
