"""The demo succeeds only if it showed everything that it promises."""

from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from e2e.demo.load import Figures
from e2e.demo.summary import Outcome, print_summary

MET = {
    "state": "Met",
    "replicas": 5,
    "start": "2026-12-01T09:31:00Z",
    "readyAt": "2026-12-01T09:30:28Z",
}


def some_figures(p95: float | None = 0.8, sent: int = 900, whole: int = 900) -> Figures:
    p50 = None if p95 is None else 0.3
    return Figures(sent, whole, sent - whole, 0, time_to_first_token_p50=p50, time_to_first_token_p95=p95)


def an_event(reason: str, kind: str = "Normal") -> dict[str, str]:
    return {"reason": reason, "type": kind, "message": "numbers"}


def an_outcome(**changes: Any) -> Outcome:
    outcome = Outcome(
        clients=some_figures(),
        in_window=some_figures(sent=600, whole=600),
        faults=(),
        window=MET,
        before_window=3,
        peak_ready=5,
        lowest_under_load=3,
        replicas=(2, 3, 5, 2),
        rates=(1.5, 5.0, 8.0, 1.0),
        final={"spec": {"scaling": {"minReplicas": 2}}, "status": {"replicas": {"ready": 2}}},
        events=(an_event("ScaledUp"), an_event("RuleChanged"), an_event("ReplicaStuck", "Warning")),
    )
    return replace(outcome, **changes)


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        pytest.param({}, [], id="all was shown"),
        pytest.param({"before_window": 2}, ["added"], id="load added nothing, only the schedule did"),
        pytest.param({"window": MET | {"state": "Missed"}}, ["window's"], id="the window opened before all served"),
        pytest.param({"window": {}}, ["window's"], id="no window was seen"),
        pytest.param({"peak_ready": 2}, ["taken"], id="nothing was taken away"),
        pytest.param({"clients": some_figures(whole=899)}, ["cut"], id="one stream was cut"),
        pytest.param({"in_window": some_figures(2.0)}, [], id="2 s in the window are in time"),
        pytest.param({"in_window": some_figures(2.01)}, ["TTFT"], id="more are not"),
        pytest.param({"clients": some_figures(5.0)}, [], id="5 s over all are in time"),
        pytest.param({"clients": some_figures(5.01)}, ["TTFT"], id="more are not, whatever the window did"),
    ],
)
def test_a_broken_promise_fails_the_demo(changes, broken):
    outcome = an_outcome(**changes)
    failed = [promise for promise, kept in outcome.promises.items() if not kept]
    assert len(failed) == len(broken)
    assert all(word in promise for word, promise in zip(broken, failed, strict=True))
    assert outcome.kept_its_promises == (not broken)


def test_simulated_clients_promise_nothing_about_first_tokens():
    outcome = an_outcome(clients=some_figures(None), in_window=some_figures(None))
    assert not [promise for promise in outcome.promises if "TTFT" in promise]
    assert outcome.kept_its_promises


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        pytest.param(MET, 32.0, id="before the start"),
        pytest.param(MET | {"readyAt": "2026-12-01T09:31:07Z"}, -7.0, id="after it"),
        pytest.param({"state": "Missed", "start": "2026-12-01T09:31:00Z"}, None, id="never"),
    ],
)
def test_how_early_the_window_was_warm(window, seconds):
    assert an_outcome(window=window).warm_for_seconds == seconds


def test_the_summary_shows_each_promise_with_its_figures():
    console = Console(record=True, width=120)
    print_summary(an_outcome(in_window=some_figures(2.5)), console)
    lines = console.export_text().splitlines()
    assert [line[:3] for line in lines if line[:3] in ("yes", "NO ")] == ["yes", "yes", "yes", "yes", "NO "]
    text = "\n".join(lines)
    for figure in (
        "▃▅█▃  2 → 3 by load → 5 → 2",
        "▂▅█▁  up to 8.0",
        "32 s before its start",
        "p95 2.50 s",
        "p95 0.80 s",
        "900 sent",
    ):
        assert figure in text


def test_the_summary_repeats_decisions_and_warnings_only():
    console = Console(record=True, width=120)
    print_summary(an_outcome(), console)
    reasons = [line.strip().partition(":")[0] for line in console.export_text().splitlines() if "numbers" in line]
    assert reasons == ["ScaledUp", "ReplicaStuck"]
