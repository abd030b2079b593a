"""`forebay plan` on schedules: the replicas, the times, and whether the bounds allow them."""

import json
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from forebay.capacity.plan.service_plan import plan_service
from forebay.cli.main import app
from forebay.cli.plan.plan_schedules import NO_WINDOW, PlannedSchedule, planned_schedules, remarks, row
from tests.capacity.specs import a_spec, traffic
from tests.cli.plan.plan_runs import a_manifest
from tests.schedules.test_timetable import unix

NOW = unix("2026-11-30T03:00", "Europe/Berlin")
MORNING = {"name": "morning", "start": "0 8 * * MON-FRI", "timeZone": "Europe/Berlin", "duration": "10h"}
MIX = traffic(20_000_000, 4, 600, 260, 1.5)


def a_schedule(**floor: Any) -> dict[str, Any]:
    return MORNING | {"floor": floor or {"replicas": 4}}


def planned_schedule(schedule: dict[str, Any], now: float = NOW, **blocks: Any) -> PlannedSchedule:
    blocks = {"traffic": MIX, "scaling": {"maxReplicas": 6}} | blocks
    plan = plan_service("team-a", "chat", a_spec(schedules=[schedule], **blocks))
    ((schedule_plan,),) = planned_schedules([plan], now).values()
    return schedule_plan


def plan(*flags: str, schedule: dict[str, Any], **blocks: Any) -> Result:
    blocks = {"traffic": MIX, "scaling": {"maxReplicas": 6}} | blocks
    manifest = a_manifest("chat", schedules=[schedule], **blocks)
    return CliRunner().invoke(app, ["plan", "-f", "-", *flags], input=yaml.safe_dump(manifest))


def test_the_row_says_how_many_when_it_opens_and_when_warming_begins():
    assert row(planned_schedule(a_schedule())) == (
        "team-a/chat morning",
        "4 replicas",
        "4",
        "4",
        "Mon 2026-11-30 08:00 Europe/Berlin (UTC+01:00)",
        "Mon 2026-11-30 07:54:30 Europe/Berlin (UTC+01:00)",
        "6: enough",
    )


def test_a_window_that_is_open_now_and_one_that_never_comes():
    assert row(planned_schedule(a_schedule(), now=NOW + 6 * 3600))[5] == "open now"
    past = {"name": "launch", "at": ["2020-01-01T00:00"], "duration": "1h", "floor": {"replicas": 2}}
    assert row(planned_schedule(past))[4:6] == (NO_WINDOW, "-")


@pytest.mark.parametrize(
    ("floor", "replicas"),
    [({"requestsPerSecond": 120}, 4), ({"tokensPerMinute": 8_000_000}, 5), ({"tokensPerMinute": 1}, 1)],
)
def test_a_rate_is_turned_into_replicas_by_what_one_carries(floor, replicas):
    """By the plan, a replica carries 1,783,286 TPM at 860 tokens per request."""
    assert planned_schedule(a_schedule(**floor)).replicas == replicas


def test_a_floor_that_max_replicas_cuts_does_not_fit():
    found = planned_schedule(a_schedule(requestsPerSecond=300))
    assert (found.replicas, found.enough) == (9, False)
    assert found.message == "scaling.maxReplicas 6 cuts the floor by 3; raise it or lower the floor."
    assert plan(schedule=a_schedule(requestsPerSecond=300)).exit_code == 1
    assert plan(schedule=a_schedule()).exit_code == 0


def test_tight_bounds_are_remarked():
    found = planned_schedule(a_schedule(), scaling={"maxReplicas": 5}, warmPool={"replicas": 2})
    assert found.message == "scaling.maxReplicas 5 is enough, which leaves 1 for 2 warm replicas."
    assert planned_schedule(a_schedule()).message.endswith(
        "; the floor needs 2 GPUs more than the 2 planned for the traffic."
    )


def test_a_rate_without_traffic_says_what_to_give_and_is_bad_input():
    found = planned_schedule(a_schedule(requestsPerSecond=10), traffic=None)
    assert (found.replicas, found.gpus, found.enough) == (None, None, None)
    assert "floor.requestsPerSecond" in found.message
    result = plan(schedule=a_schedule(requestsPerSecond=10), traffic=None)
    assert result.exit_code == 2
    assert "team-a/chat: morning: floor.requestsPerSecond" in result.stderr


def test_several_gpus_a_replica():
    found = planned_schedule(a_schedule(), engine={"tensorParallelSize": 2})
    assert (found.replicas, found.gpus) == (4, 8)


def test_as_json_with_the_names_of_the_api():
    (service,) = json.loads(plan("-o", "json", schedule=a_schedule()).stdout)["services"]
    (found,) = service["schedules"]
    assert {name: found[name] for name in ("name", "floor", "replicas", "gpus", "maxReplicas", "enough")} == {
        "name": "morning",
        "floor": {"replicas": 4},
        "replicas": 4,
        "gpus": 4,
        "maxReplicas": 6,
        "enough": True,
    }
    assert set(found) >= {"start", "end", "warmFrom", "leadSeconds", "message"}


@pytest.mark.parametrize("output", ["table", "markdown"])
def test_schedules_in_text_formats(output):
    text = plan("-o", output, schedule=a_schedule()).stdout
    assert "team-a/chat morning" in text
    assert "WARMING FROM" in text
    assert "Warming begins 300 s + 30 s before" in " ".join(text.split())


def test_a_service_without_schedules_is_not_burdened_with_them():
    result = CliRunner().invoke(app, ["plan", "-f", "-"], input=yaml.safe_dump(a_manifest("chat", traffic=MIX)))
    assert "SCHEDULE" not in result.stdout
    assert list(remarks([])) == []
