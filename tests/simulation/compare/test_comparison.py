"""A comparison: all policies get the same traffic, and a window is met if its floor serves when it begins."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from forebay.api.spec.schedule_spec import ScheduleFloor
from forebay.schedules.schedule_floors import PlannedCapacity
from forebay.simulation.cluster.cold_start import ColdStarts
from forebay.simulation.cluster.scheduled_windows import ScheduledWindow
from forebay.simulation.compare.comparison import TAIL_SECONDS, ComparedCase, Comparison, Result, true_model
from forebay.simulation.compare.simulation_report import document
from forebay.simulation.peers.peer_grid import PeerSetting, defaults, grid, static
from forebay.simulation.peers.static_replicas import StaticReplicas
from forebay.simulation.traffic.traces import steady, steps, synthetic
from tests.simulation.loops import a_view

SECONDS = 180.0


def a_case(rate: float = 20.0, seed: int = 2, **fields) -> ComparedCase:
    view = a_view(max_replicas=6)
    trace = synthetic("test", steady(rate), SECONDS, seed, lengths=(500, 200))
    return ComparedCase(true_model(view, seed, 0.2), trace, SECONDS, seed, **fields)


def test_true_profiles_differ_from_those_of_the_policies():
    case = a_case()
    assumed = case.replica_capacity.engine.step_profile
    assert case.model.profile != assumed
    assert case.model.profile.step_seconds == pytest.approx(assumed.step_seconds, rel=0.2)
    assert Comparison(case).peer_inputs.engine.profile == assumed


def test_the_initial_count_is_the_need_of_the_first_minutes():
    assert Comparison(a_case(5.0)).initial_replicas() == 1
    assert Comparison(a_case(80.0)).initial_replicas() in (2, 3)
    assert Comparison(a_case(1000.0)).initial_replicas() == 6, "bounds hold"


def test_all_policies_meet_the_same_requests():
    comparison = Comparison(a_case())
    knative = next(entry for entry in defaults() if entry.rule == "Knative KPA")
    results = [comparison.forebay(), comparison.oracle(), comparison.peer(knative), comparison.peer(static())]
    assert len({result.summary.offered for result in results}) == 1
    assert len({id(result.outcome.trace) for result in results}) == 1
    for result in results:
        assert result.summary.unfinished == 0, "what is under way at the last arrival may end"
        assert result.summary.gpu_hours >= (SECONDS + TAIL_SECONDS) / 3600 * 0.99


def test_only_the_oracle_knows_the_future():
    """Two futures with the same first 150 seconds: all decisions in those seconds are the same, except the oracle's."""

    def decided(later: float) -> tuple[list[int], list[int]]:
        quiet = synthetic("quiet", steady(10.0), SECONDS, 2)
        more = synthetic("more", steps((0, 0.0), (150, later)), SECONDS, 3)
        times = np.concatenate([quiet.times, more.times[more.times >= 150]])
        order = np.argsort(times, kind="stable")
        lengths = np.full(len(times), 500), np.full(len(times), 200)
        trace = replace(
            quiet,
            times=times[order],
            prompt_tokens=lengths[0],
            output_tokens=lengths[1],
            tenants=np.zeros(len(times), dtype=np.int64),
        )
        comparison = Comparison(replace(a_case(10.0), trace=trace))
        knative = next(entry for entry in defaults() if entry.rule == "Knative KPA")
        runs = comparison.peer(knative), comparison.oracle()
        wanted = [[tick.desired for tick in run.outcome.ticks if tick.at < 150] for run in runs]
        return wanted[0], wanted[1]

    calm, crowded = decided(1.0), decided(150.0)
    assert calm[0] == crowded[0]
    assert calm[1] != crowded[1], "the oracle orders a cold start ahead"


def two_replicas() -> PeerSetting:
    return replace(static(), build=lambda peer_inputs: StaticReplicas(2))


def test_a_window_is_met_by_those_who_serve_its_floor_when_it_begins():
    """A replica that is created at the beginning and starts in 120 s does not serve at 60 s, but does at 175 s."""
    case = a_case(windows=((60.0, 120.0),), window_replicas=2, starts=ColdStarts(ready_seconds=120.0, spread=0.0))
    early, late = Comparison(case), Comparison(replace(case, windows=((175.0, 200.0),)))
    assert met(early, early.peer(two_replicas())) == {"total": 1, "metByStart": 0}
    assert met(late, late.peer(two_replicas())) == {"total": 1, "metByStart": 1}
    assert met(late, late.oracle()) == {"total": 1, "metByStart": 0}


@pytest.mark.parametrize(
    ("floor", "replicas"),
    [({"replicas": 4}, 4), ({"requestsPerSecond": 41}, 3), ({"tokensPerMinute": 60 * 700 * 20}, 1)],
)
def test_a_windows_floor_in_replicas_that_carry_20_requests_a_second(floor, replicas):
    window = ScheduledWindow(0.0, 60.0, ScheduleFloor.model_validate(floor), "tea")
    assert window.replicas(PlannedCapacity(20.0 * 60 * 700.0, 700.0)) == replicas
    assert window.replicas(None) == floor.get("replicas")


def met(comparison: Comparison, result: Result) -> object:
    return document(comparison, [result], {})["policies"][0]["schedules"]


def test_every_tuned_rule_has_a_grid_around_its_setting():
    settings = Counter(entry.rule for entry in grid())
    assert settings == {
        "HPA waiting": 8,
        "HPA KV": 9,
        "HPA in flight": 11,
        "KEDA + cron": 11,
        "Knative KPA": 9,
        "Ray Serve": 11,
        "AIBrix APA": 9,
        "WVA v1": 9,
        "WVA v2": 9,
        "WVA queueing": 8,
        "Dynamo throughput": 8,
        "Dynamo": 8,
    }
    assert set(settings) == {entry.rule for entry in defaults()}
    assert len({(entry.rule, entry.target) for entry in grid()}) == settings.total()
    assert all(entry.tuned for entry in grid())
    assert not any(entry.tuned for entry in defaults())
