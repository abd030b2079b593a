from rich.console import Console

from forebay.cli.explain.top import table
from forebay.cli.service_reading import ServiceReading
from tests.cli.explain.test_explain_service import a_reading


def shown(*services: ServiceReading, note: str = "") -> list[list[str]]:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(table(services, note))
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_one_line_per_service_with_its_numbers_and_its_rule():
    title, line = shown(a_reading())
    assert title == [
        "NAMESPACE",
        "SERVICE",
        "READY",
        "WANTED",
        "SERVING",
        "LOADING",
        "DRAINING",
        "QUEUE",
        "KV%",
        "TPM",
        "LEAD",
        "SCHEDULE",
        "RULE",
        "BECAUSE",
    ]
    assert line[:11] == ["team-a", "chat", "True", "4", "3", "1", "0", "95", "82", "?", "queue_depth"]
    assert " ".join(line[11:]) == "95 requests wait on 3 replicas, target 20 each"


def test_capacity_lead_time_and_the_schedule_that_needs_attention_are_shown():
    starts = {"p50Seconds": 62, "p95Seconds": 70, "seconds": [60, 62, 70]}
    times = {"placeholderNode": starts, "readyNode": starts, "newNode": starts}
    _, line = shown(
        a_reading(
            capacity={"tokensPerMinute": 4_200_000, "perReplica": 1_400_000, "basis": "profile"},
            learned={"version": 1, "leadTime": {**times, "countedUntil": "2026-03-01T11:00:00Z"}},
            schedules=[{"name": "evening", "state": "Idle"}, {"name": "noon", "state": "AtRisk"}],
        )
    )
    assert line[9:14] == ["4200000", "70s", "noon", "AtRisk", "queue_depth"]


def test_what_is_not_known_is_a_question_mark():
    _, line = shown(a_reading(load={}))
    assert line[7:9] == ["?", "?"]


def test_a_service_that_is_not_ready_shows_the_reason_in_its_place():
    broken = {
        "type": "Ready",
        "status": "False",
        "reason": "ImagePull",
        "message": "The image cannot be pulled.",
        "lastTransitionTime": "2026-03-01T11:00:00Z",
    }
    _, line = shown(a_reading(conditions=[broken], decision=None))
    assert line[2] == "ImagePull"
    assert " ".join(line[10:]) == "The image cannot be pulled."


def test_a_service_nobody_has_looked_at_is_listed_too():
    _, line = shown(ServiceReading("team-a", "chat", 1, None, None))
    assert line[:3] == ["team-a", "chat", "?"]


def test_a_failed_reading_is_noted_under_the_last_good_one():
    lines = shown(a_reading(), note="last reading failed, trying again: 0 NoAnswer: refused")
    assert " ".join(lines[-1]) == "last reading failed, trying again: 0 NoAnswer: refused"
