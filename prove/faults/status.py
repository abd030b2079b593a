"""Nothing is written that says nothing new: GitOps sees no drift, and a status write wakes nobody."""

from prove.fault import Edit, Fault

STATUS = "operator/forebay/planner/report/service_status.py"
SERVICE = "operator/forebay/workloads/objects/service.py"
DISRUPTION_BUDGET = "operator/forebay/workloads/objects/disruption_budget.py"
HANDLERS = "operator/forebay/controller/handlers.py"

FAULTS = (
    Fault(
        "status.written-at-every-tick",
        "a status that is stored already is not written",
        (
            Edit(
                STATUS,
                "    if wanted == stored:\n        return False\n",
                "    if wanted == stored:\n        return True\n",
            ),
        ),
        (
            "tests/planner/report/test_service_status.py::test_when_a_status_is_written",
            "tests/cluster/write/test_status_writer.py::test_what_is_stored_already_is_not_written",
        ),
    ),
    Fault(
        "status.telemetry-at-every-tick",
        "numbers that move with the load are written every 30 s at most",
        (Edit(STATUS, "TELEMETRY_SECONDS: Final = 30.0", "TELEMETRY_SECONDS: Final = 0.0"),),
        (
            "tests/planner/report/test_service_status.py::test_when_a_status_is_written",
            "tests/cluster/write/test_status_writer.py::test_telemetry_is_written_every_30_s_and_decisions_at_once",
        ),
    ),
    Fault(
        "status.a-time-stamp-per-tick",
        "a condition keeps its time as long as its status",
        (
            Edit(
                "operator/forebay/planner/report/conditions.py",
                "if before is not None and before.status == answer.status else rfc3339(now)",
                "if False else rfc3339(now)",
            ),
            Edit("operator/forebay/planner/report/conditions.py", "        return before\n", "        pass\n"),
        ),
        ("tests/planner/report/test_service_status.py::test_a_condition_keeps_its_time_as_long_as_its_status",),
    ),
    Fault(
        "status.children-rewritten",
        "what the API server fills in, and what others own, is no change of ours",
        (
            Edit(
                SERVICE,
                'spec.get("publishNotReadyAddresses", False),',
                'spec.get("publishNotReadyAddresses", False), "clusterIP": spec.get("clusterIP"),',
            ),
        ),
        (
            "tests/workloads/objects/test_child_objects.py::test_what_the_api_server_and_others_add_is_no_change",
            "e2e/apiserver/test_operator.py::test_applying_the_same_again_changes_nothing",
        ),
    ),
    Fault(
        "status.a-change-by-hand-goes-unseen",
        "a Service or budget that was changed by hand is put right",
        (
            Edit(
                DISRUPTION_BUDGET,
                '    names = ("selector", "minAvailable", "unhealthyPodEvictionPolicy")\n',
                '    names = ("selector", "unhealthyPodEvictionPolicy")\n',
            ),
        ),
        ("tests/workloads/objects/test_child_objects.py::test_a_change_by_hand_is_seen",),
    ),
    Fault(
        "status.its-write-wakes-the-loop",
        "a status write wakes nobody",
        (
            Edit(
                HANDLERS,
                '    return metadata.get("uid"), metadata.get("generation"),',
                '    return metadata.get("resourceVersion"), metadata.get("generation"),',
            ),
        ),
        ("tests/controller/test_handlers.py::test_what_wakes_nobody",),
    ),
    Fault(
        "status.marks-on-the-users-object",
        "no finalizer and no annotation is put on what the user wrote",
        (
            Edit(
                HANDLERS,
                "    @kopf.on.cleanup(",
                '    @kopf.on.delete(GROUP, VERSION, INFERENCE_SERVICES.plural, registry=registry, id="gone")\n'
                "    async def gone(**_: Any) -> None:\n"
                '        wake("gone")\n\n'
                "    @kopf.on.cleanup(",
            ),
        ),
        ("tests/controller/test_handlers.py::test_only_handlers_that_leave_no_mark_are_used",),
    ),
    Fault(
        "status.events-at-every-tick",
        "an Event is sent once for a transition, not at every tick",
        (
            Edit(
                "operator/forebay/planner/report/events.py",
                "if step.event is None or (step.event.reason, step.subject) in known:",
                "if step.event is None:",
            ),
        ),
        ("tests/planner/report/test_service_status.py::test_a_service_is_told_of_once_and_not_again_after_a_restart",),
    ),
)
