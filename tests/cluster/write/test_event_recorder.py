"""Events are not repeated, are limited per service, and never fail a tick."""

from forebay.api.inference_service import InferenceServiceStatus
from forebay.api.reasons import Reason
from forebay.cluster.client.kube_api import EVENTS, ApiError
from forebay.cluster.write.event_recorder import EventRecorder
from forebay.world.plan import EventRecord, Plan, ServicePlan
from forebay.world.world import ServiceKey
from tests.builders.world import NOW
from tests.cluster.fake_api import FakeApi, FakeCall

SCALED = EventRecord("Normal", Reason.SCALED_UP, "3 replicas: 41 requests wait on 2 replicas, target 20 each")


class RecordedEvents:
    def __init__(self, *, dry_run: bool = False) -> None:
        self.api = FakeApi()
        self.time = 0.0
        self.recorder = EventRecorder(self.api, instance="forebay-0", dry_run=dry_run, monotonic=lambda: self.time)

    async def record(self, *events: EventRecord, uid: str = "uid-chat", after: float = 0.0) -> None:
        self.time += after
        service = ServicePlan(ServiceKey("team", "chat"), uid, (), InferenceServiceStatus(), events)
        await self.recorder.record(Plan((service,)), NOW + self.time)

    @property
    def notes(self) -> list[str]:
        return [event["note"] for event in self.api.all(EVENTS)]


async def test_an_event_has_all_required_fields():
    recorded = RecordedEvents()
    await recorded.record(SCALED)
    (event,) = recorded.api.all(EVENTS)
    assert event["metadata"]["namespace"] == "team"
    assert event["metadata"]["name"].startswith("chat.")
    assert event["regarding"] == {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "InferenceService",
        "namespace": "team",
        "name": "chat",
        "uid": "uid-chat",
    }
    assert (event["type"], event["reason"], event["note"], event["action"]) == (
        "Normal",
        "ScaledUp",
        SCALED.message,
        "Plan",
    )
    assert (event["reportingController"], event["reportingInstance"]) == ("forebay.dev/operator", "forebay-0")
    assert event["eventTime"].endswith("Z")
    assert recorded.recorder.recorded == 1


async def test_the_same_event_is_written_once_in_ten_minutes():
    recorded = RecordedEvents()
    for _ in range(3):
        await recorded.record(SCALED, after=199.0)
    assert (len(recorded.notes), recorded.recorder.dropped) == (1, 2)
    await recorded.record(SCALED, after=202.0)
    assert len(recorded.notes) == 2


async def test_many_events_of_one_service_do_not_drop_those_of_others():
    recorded = RecordedEvents()
    await recorded.record(*(EventRecord("Warning", Reason.STALLED, f"number {n}") for n in range(100)))
    assert (len(recorded.notes), recorded.recorder.dropped) == (25, 75)
    await recorded.record(SCALED, uid="uid-other")
    assert len(recorded.notes) == 26


async def test_the_token_bucket_refills_over_time():
    recorded = RecordedEvents()
    await recorded.record(*(EventRecord("Warning", Reason.STALLED, f"number {n}") for n in range(30)))
    await recorded.record(*(EventRecord("Warning", Reason.STALLED, f"later {n}") for n in range(5)), after=120.0)
    assert len(recorded.notes) == 27


async def test_a_failed_write_is_only_counted():
    recorded = RecordedEvents()

    def refuse(call: FakeCall) -> None:
        raise ApiError(403, "Forbidden", "no")

    recorded.api.before = refuse
    await recorded.record(SCALED)
    assert (recorded.recorder.failed, recorded.recorder.recorded) == (1, 0)


async def test_a_dry_run_only_logs(caplog):
    caplog.set_level("INFO")
    recorded = RecordedEvents(dry_run=True)
    await recorded.record(SCALED)
    assert recorded.api.calls == []
    assert f"team/chat: ScaledUp: {SCALED.message}" in caplog.messages


async def test_a_long_message_is_cut_at_1024_bytes():
    recorded = RecordedEvents()
    await recorded.record(EventRecord("Warning", Reason.PLANNING_FAILED, "é" * 1000))
    (note,) = recorded.notes
    assert note == "é" * 512
