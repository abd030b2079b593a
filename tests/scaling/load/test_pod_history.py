"""Pod history: which samples are kept."""

from math import inf

import pytest

from forebay.scaling.load.counters import EngineBounds
from forebay.scaling.load.pod_history import MOST_MARKS, is_sound, remember
from tests.builders.loads import a_history
from tests.builders.world import NOW, a_histogram, a_sample

EVER = -inf


def test_a_saw_tooth_counts_by_its_peak_of_the_last_minute():
    history = a_history(*({"kv": kv} for kv in (0.47, 0.99, 0.35, 0.40)), every_seconds=10)
    assert history.smoothed_kv_fraction(EVER) == 0.99
    later = remember(history, a_sample(at=NOW + 65, kv=0.40))
    assert later.smoothed_kv_fraction(EVER) == 0.40


def test_a_peak_that_fewer_replicas_suffered_is_no_evidence_against_more():
    history = a_history(*({"kv": kv} for kv in (0.47, 0.99, 0.35, 0.40)), every_seconds=10)
    assert history.smoothed_kv_fraction(NOW - 10) == 0.40
    assert history.smoothed_kv_fraction(NOW + 1) == 0.40, "the newest is all there is"


def test_rates_begin_with_the_first_sample_of_the_fleet_as_it_is():
    history = a_history(*({"finished": index} for index in range(7)), every_seconds=10)
    assert history.oldest(EVER) == history.marks[0]
    oldest = history.oldest(NOW - 25)
    assert oldest is not None
    assert oldest.taken_at == NOW - 20
    assert history.oldest(NOW) is None


@pytest.mark.parametrize("every_seconds", [0.5, 5.0, 15.0])
def test_it_is_bounded_and_spans_a_minute_at_any_pace_of_scraping(every_seconds):
    samples = [{"kv": 0.1, "generation_tokens": float(index)} for index in range(int(200 / every_seconds))]
    history = a_history(*samples, every_seconds=every_seconds)
    assert len(history.marks) <= MOST_MARKS
    assert len(history.kv) <= MOST_MARKS + 1
    oldest = history.oldest(EVER)
    assert oldest is not None
    assert 60 <= history.newest.taken_at - oldest.taken_at <= 75


def test_a_sample_that_is_already_known_changes_nothing():
    history = a_history({"kv": 0.1})
    assert remember(history, a_sample(at=NOW, kv=0.9)) is history


def test_after_a_gap_there_is_no_rate_until_the_next_sample():
    history = remember(a_history({"finished": 5}), a_sample(at=NOW + 600, finished=9))
    assert history.oldest(EVER) is None


def test_counters_begin_anew_when_the_container_restarted():
    history = remember(a_history({"generation_tokens": 500}), a_sample(at=NOW + 5, generation_tokens=3), restarts=1)
    assert history.oldest(EVER) is None
    assert history.newest.generation_tokens == 3


def test_counters_that_fall_without_a_restart_give_no_rates_for_a_minute():
    history = a_history({"finished": 500}, {"finished": 505})
    for seconds in range(5, 65, 5):
        history = remember(history, a_sample(at=NOW + seconds, running=2, finished=seconds))
        assert history.newest.running_requests == 2, "gauges still count"
        assert history.flow_span is None
        assert "did not restart" in history.distrusted_because
    for seconds in (65, 75):
        history = remember(history, a_sample(at=NOW + seconds, finished=seconds))
    assert history.flow_span is not None
    assert [sample.finished_requests for sample in history.flow_span] == [65, 75]


def test_two_processes_behind_one_port_give_no_rates():
    history = a_history({"finished": 500})
    for seconds in range(5, 600, 5):
        share = 0.3 if seconds % 10 else 0.7
        history = remember(history, a_sample(at=NOW + seconds, finished=(1000 + seconds) * share))
        assert history.flow_span is None


@pytest.mark.parametrize(
    ("field", "within", "beyond"),
    [
        pytest.param("finished_prompt_tokens", 4_000, 4_001, id="prompts of four requests of 1,000 tokens"),
        pytest.param("finished_output_tokens", 4_000, 4_001, id="answers"),
        pytest.param("prompt_tokens", 6_000, 6_001, id="prompts of four requests and two that still run"),
        pytest.param("generation_tokens", 60_000, 60_001, id="10,000 tokens a second, for one second more"),
        pytest.param("steps", 600, 601, id="100 steps a second, for one second more"),
    ],
)
def test_a_counter_is_bounded_by_what_an_engine_can_do(field, within, beyond):
    bounds = EngineBounds(max_model_len=1000, steps_per_second=100, output_tokens_per_second=10_000)
    before = a_history({"at": NOW, "finished": 10, field: 0})
    for rise, trusted in ((within, True), (beyond, False)):
        sample = a_sample(at=NOW + 5, running=2, finished=14, **{field: rise})
        history = remember(before, sample, bounds=bounds)
        assert (history.distrusted_at is None) is trusted


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param([{"running": 3, "steps": 7}] * 30, True, id="runs requests and makes no step"),
        pytest.param([{"running": 0, "steps": 7}] * 30, False, id="has nothing to do"),
        pytest.param([{"running": 3, "steps": i} for i in range(30)], False, id="makes steps"),
        pytest.param(
            [{"running": 3, "steps": 7, "generation_tokens": i} for i in range(30)],
            False,
            id="the step counter is stuck, tokens flow",
        ),
        pytest.param([{"waiting": 3, "steps": 7}] * 30, True, id="nothing runs, but requests wait"),
        pytest.param([{"deferred": 3, "steps": 7}] * 30, False, id="requests wait for an adapter"),
        pytest.param([{"running": 3}] * 30, False, id="no counter is known, so nothing is"),
        pytest.param([{"running": 3, "steps": 7}] * 10, False, id="not for long enough"),
    ],
)
def test_a_stalled_engine(samples, expected):
    assert a_history(*samples).motionless(120) is expected


def test_missing_metrics_are_no_stall():
    history = a_history({"running": 3, "steps": 7}, {"running": 3, "steps": 7})
    assert not history.motionless(120)


@pytest.mark.parametrize("field", ["running", "waiting", "kv"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.7e308])
def test_a_gauge_that_no_engine_can_reach_is_unsound(field, value):
    assert is_sound(a_sample())
    assert not is_sound(a_sample(**{field: value}))


def test_an_implausible_counter_is_rejected_until_it_lasts():
    """5,000 requests a second are accepted, a million at once are not. If the count stays there, counting restarts."""
    before = a_history({"at": NOW, "finished": 10})
    accepted = remember(before, a_sample(at=NOW + 5, finished=10 + 25_000))
    assert accepted.newest.finished_requests == 25_010
    for finished, waiting in ((1_000_000, 0), (10, 1_000_000)):
        assert remember(before, a_sample(at=NOW + 59, finished=finished, waiting=waiting)) is before
        anew = remember(before, a_sample(at=NOW + 61, finished=finished, waiting=waiting))
        assert [mark.taken_at for mark in anew.marks] == [NOW + 61]


def test_a_request_that_has_just_come_is_no_stall():
    """At one scrape in 30 s, the first look at a new request may come before its first step."""
    history = a_history({"steps": 7}, {"running": 1, "steps": 7}, every_seconds=30)
    assert not history.motionless(20)
    later = remember(history, a_sample(at=NOW + 30, running=1, steps=7))
    assert later.motionless(20)


@pytest.mark.parametrize(
    ("later", "trusted"),
    [
        pytest.param(10 * 5.0, True, id="ten requests add up to the time that passed"),
        pytest.param(10 * 60.0, True, id="and to what they waited for after a pause"),
        pytest.param(10 * 70.0, False, id="no ten requests have so much time between their tokens"),
        pytest.param(-0.1, False, id="time between tokens does not go down"),
    ],
)
def test_latencies_are_trusted_as_far_as_requests_can_have_had_them(later: float, trusted: bool):
    samples = [
        {"running": 10, "finished": 100, "inter_token_latency": a_histogram({0.04: 1000.0}, total=100.0 + more)}
        for more in (0.0, later)
    ]
    assert (a_history(*samples, every_seconds=5).distrusted_at is None) == trusted
