"""Only the leader writes the status, only when it has changed enough, and only what has changed."""

from dataclasses import replace
from typing import Any

import pytest

from forebay.api.inference_service import Condition, DecisionStatus, InferenceServiceStatus, LoadStatus, ReplicaStatus
from forebay.cluster.client.kube_api import INFERENCE_SERVICES, ApiError
from forebay.cluster.read.observer import Observer
from forebay.cluster.write.status_writer import StatusWriter, merge_patch
from forebay.world.plan import Plan, ServicePlan
from forebay.world.settings import Settings
from forebay.world.world import ServiceView
from tests.builders.world import NOW, a_service, a_world
from tests.cluster.cluster_in_memory import a_stored_service
from tests.cluster.fake_api import FakeApi, FakeCall, lost_answer

READY = Condition(
    type="Ready",
    status="True",
    reason="Serving",
    message="2 replicas serve.",
    last_transition_time="2026-01-01T00:00:00Z",
)
STATUS = InferenceServiceStatus(
    observed_generation=1,
    conditions=(READY,),
    url="http://chat.team.svc:80/v1",
    replicas=ReplicaStatus(desired=2, ready=2),
    load=LoadStatus(queue=4, kv_percent=50),
    decision=DecisionStatus(rule="queue_depth", because="4 wait", desired=2, inputs={"queue": "4", "target": "20"}),
)


class WrittenStatus:
    def __init__(self, *, leading: bool = True, dry_run: bool = False) -> None:
        self.api = FakeApi()
        self.api.put(INFERENCE_SERVICES, a_stored_service())
        observer = Observer(self.api, settings=Settings())
        self.writer = StatusWriter(self.api, observer, is_leader=lambda: leading, dry_run=dry_run)

    async def write(
        self, before: InferenceServiceStatus, after: InferenceServiceStatus, at: float = 0.0, version: str = ""
    ) -> Any:
        """Write a plan with the status `after` for a service whose stored status is `before`."""
        self.api.calls.clear()
        service = replace(a_service("chat", namespace="team", uid="uid-chat", status=before), resource_version=version)
        return await self.writer.write(Plan((plan_of(service, after),)), a_world(service), NOW + at)

    @property
    def patches(self) -> list[Any]:
        return [call.body["status"] for call in self.api.calls]


def plan_of(service: ServiceView, status: InferenceServiceStatus) -> ServicePlan:
    return ServicePlan(service.key, service.uid, (), status)


async def test_a_first_status_is_written_whole():
    written = WrittenStatus()
    outcome = await written.write(InferenceServiceStatus(), STATUS)
    (call,) = written.api.calls
    assert (call.verb, call.name, call.subresource) == ("patch", "team/chat", "status")
    assert outcome.calls == {("patch", "inferenceservices"): 1}
    stored = written.api.find(INFERENCE_SERVICES, "team", "chat")
    assert stored is not None
    assert InferenceServiceStatus.model_validate(stored["status"]) == STATUS


async def test_an_unchanged_status_is_not_written():
    written = WrittenStatus()
    await written.write(STATUS, STATUS)
    assert written.api.calls == []


async def test_only_what_changed_is_written():
    written = WrittenStatus()
    await written.write(STATUS, STATUS.model_copy(update={"replicas": ReplicaStatus(desired=3, ready=2, loading=1)}))
    assert written.patches == [{"replicas": {"desired": 3, "loading": 1}}]


async def test_fields_that_became_unknown_are_removed():
    written = WrittenStatus()
    decision = DecisionStatus(rule="min_replicas", because="1 is the least", desired=1)
    await written.write(STATUS, STATUS.model_copy(update={"load": LoadStatus(), "decision": decision}))
    assert written.patches == [
        {
            "load": {"queue": None, "kvPercent": None},
            "decision": {
                "rule": "min_replicas",
                "because": "1 is the least",
                "desired": 1,
                "inputs": {"queue": None, "target": None},
            },
        }
    ]


async def test_conditions_are_written_as_one_list():
    written = WrittenStatus()
    late = READY.model_copy(update={"type": "UpToDate", "status": "False", "reason": "UpdateAvailable"})
    await written.write(STATUS, STATUS.model_copy(update={"conditions": (READY, late)}))
    (patch,) = written.patches
    assert [condition["type"] for condition in patch["conditions"]] == ["Ready", "UpToDate"]


async def test_telemetry_is_written_every_30_s_and_decisions_at_once():
    written = WrittenStatus()
    busier = STATUS.model_copy(update={"load": LoadStatus(queue=5, kv_percent=50)})
    await written.write(InferenceServiceStatus(), STATUS)
    written_at = []
    for second in range(5, 40, 5):
        await written.write(STATUS, busier, at=second)
        written_at += [second for _ in written.patches]
    assert written_at == [30]
    await written.write(busier, busier.model_copy(update={"replicas": ReplicaStatus(desired=3)}), at=36)
    assert len(written.patches) == 1


async def test_after_the_clock_was_set_back_telemetry_is_written_at_once():
    written = WrittenStatus()
    busier = STATUS.model_copy(update={"load": LoadStatus(queue=5, kv_percent=50)})
    await written.write(InferenceServiceStatus(), STATUS, at=3600)
    written.writer.forget()
    await written.write(STATUS, busier, at=0)
    assert len(written.patches) == 1


async def test_a_write_that_failed_is_tried_again_at_the_next_tick():
    written = WrittenStatus()

    def lose(call: FakeCall) -> None:
        raise lost_answer()

    written.api.before = lose
    outcome = await written.write(InferenceServiceStatus(), STATUS)
    assert [(failure.action, failure.error.status) for failure in outcome.failures] == [(None, 0)]
    written.api.before = lambda call: None
    await written.write(InferenceServiceStatus(), STATUS, at=5)
    assert len(written.patches) == 1


@pytest.mark.parametrize(
    ("leading", "dry_run", "leadership_lost"),
    [pytest.param(False, False, True, id="a standby"), pytest.param(True, True, False, id="a dry run")],
)
async def test_a_standby_and_a_dry_run_write_no_status(leading, dry_run, leadership_lost):
    written = WrittenStatus(leading=leading, dry_run=dry_run)
    outcome = await written.write(InferenceServiceStatus(), STATUS)
    assert (written.api.calls, outcome.leadership_lost) == ([], leadership_lost)


async def test_deleted_and_recreated_services_are_not_written():
    written = WrittenStatus()
    current_version = written.api.all(INFERENCE_SERVICES)[0]["metadata"]["resourceVersion"]
    written.api.remove(INFERENCE_SERVICES, "team", "chat")
    assert (await written.write(InferenceServiceStatus(), STATUS, version=current_version)).failures == ()
    written.api.put(INFERENCE_SERVICES, a_stored_service(uid="uid-of-a-successor"))
    outcome = await written.write(InferenceServiceStatus(), STATUS, version=current_version)
    assert (outcome.failures, outcome.races) == ((), 1)
    stored = written.api.find(INFERENCE_SERVICES, "team", "chat")
    assert stored is not None
    assert "status" not in stored


async def test_a_service_missing_from_the_world_is_skipped():
    written = WrittenStatus()
    service = a_service("chat", namespace="team", uid="uid-chat")
    await written.writer.write(Plan((plan_of(service, STATUS),)), a_world(), NOW)
    assert written.api.calls == []


async def test_a_refused_status_affects_only_its_own_service():
    written = WrittenStatus()
    written.api.put(INFERENCE_SERVICES, a_stored_service("other"))

    def refuse(call: FakeCall) -> None:
        if call.name == "team/chat":
            raise ApiError(422, "Invalid", "status.conditions[0].reason")

    written.api.before = refuse
    chat = a_service("chat", namespace="team", uid="uid-chat")
    other = replace(chat, key=replace(chat.key, name="other"), uid="uid-other")
    outcome = await written.writer.write(
        Plan((plan_of(chat, STATUS), plan_of(other, STATUS))), a_world(chat, other), NOW
    )
    assert [str(failure.key) for failure in outcome.failures] == ["team/chat"]
    stored = written.api.find(INFERENCE_SERVICES, "team", "other")
    assert stored is not None
    assert stored["status"]["url"] == "http://chat.team.svc:80/v1"


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        pytest.param({}, {}, {}, id="nothing"),
        pytest.param({"a": 1}, {}, {"a": None}, id="gone"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}, id="inside"),
        pytest.param({"a": [1, 2]}, {"a": [2]}, {"a": [2]}, id="a list is replaced"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="another type"),
        pytest.param({}, {"a": {}}, {"a": {}}, id="an empty map appears"),
    ],
)
def test_the_difference_is_a_merge_patch(before, after, patch):
    assert merge_patch(before, after) == patch
