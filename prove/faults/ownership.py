"""Objects that are not ours by controller uid are never touched, and a stale decision is harmless."""

from prove.fault import Edit, Fault

ACTIONS = "operator/forebay/cluster/write/action_calls.py"
STAGING = "operator/forebay/planner/observe/fleet_context.py"
OWNERSHIP = "operator/forebay/workloads/objects/ownership.py"

FAULTS = (
    Fault(
        "ownership.pods-taken-by-label",
        "a pod with our labels and another controller is not ours",
        (
            Edit(
                STAGING, "home = pod.service_uid if pod.owner_uid is None else pod.owner_uid", "home = pod.service_uid"
            ),
            Edit(
                STAGING,
                "replicas_of((pod for pod in pods if pod.owner_uid == service.uid), sight)",
                "replicas_of((pod for pod in pods if pod.owner_uid is not None), sight)",
            ),
        ),
        (
            "tests/planner/test_planner.py::test_pods_of_somebody_else_are_not_touched_and_their_names_not_taken",
            "tests/planner/test_properties.py::test_only_our_own_pods_are_touched_and_no_name_is_used_twice",
        ),
    ),
    Fault(
        "ownership.orphans-ignored",
        "orphans of a known revision are adopted as far as they are needed",
        (
            Edit(
                "operator/forebay/planner/reconcile/balance.py",
                "(orphan for orphan in scene.orphans if orphan.state in _ADOPTABLE)",
                "(orphan for orphan in scene.orphans if orphan.state not in ReplicaState)",
            ),
        ),
        (
            "tests/planner/reconcile/test_balance.py::test_orphans_of_a_known_revision_are_adopted_as_far_as_they_are_needed",
            "tests/planner/test_stories.py::test_eight_orphans_with_room_for_two",
        ),
    ),
    Fault(
        "ownership.deletes-without-preconditions",
        "a deletion holds for one object in one version, so that a stale leader's is harmless",
        (
            Edit(
                "operator/forebay/cluster/client/kubernetes_api.py",
                '"preconditions": preconditions}\n',
                "}\n",
            ),
        ),
        (
            "tests/cluster/client/test_kubernetes_api.py::test_writes",
            "e2e/apiserver/test_cluster_package.py::test_a_delete_holds_only_for_the_pod_that_was_seen",
        ),
    ),
    Fault(
        "ownership.pods-deleted-in-any-version",
        "a pod that changed since it was looked at is not deleted",
        (
            Edit(
                ACTIONS,
                "                resource_version=action.resource_version,\n",
                "",
            ),
        ),
        (
            "tests/cluster/write/test_action_calls.py::test_a_decision_about_another_version_of_a_pod_is_a_race_and_nothing_happens",
        ),
    ),
    Fault(
        "ownership.pods-changed-in-any-version",
        "a pod that changed since it was looked at is not drained, taken back or adopted",
        (
            Edit(
                ACTIONS, 'guarded = {**metadata, "resourceVersion": action.resource_version}', "guarded = {**metadata}"
            ),
        ),
        (
            "tests/cluster/write/test_action_calls.py::test_a_decision_about_another_version_of_a_pod_is_a_race_and_nothing_happens",
        ),
    ),
    Fault(
        "ownership.any-pod-of-the-name-will-do",
        "409 is success only for a pod of our own",
        (
            Edit(
                ACTIONS,
                "self._reader.one(body).metadata\n        if metadata.controller_uid != owner.uid:",
                "self._reader.one(body).metadata\n        if metadata.uid == owner.uid:",
            ),
        ),
        (
            "tests/cluster/write/test_action_calls.py::test_a_name_that_is_somebody_elses_is_left_and_told",
            "tests/cluster/write/test_action_calls.py::test_a_revision_of_somebody_else_is_neither_changed_nor_deleted",
        ),
    ),
    Fault(
        "ownership.children-taken-over",
        "a Service or budget of the name that somebody else owns is left alone",
        (
            Edit(
                ACTIONS,
                "        if live.metadata.controller_uid != owner.uid:\n",
                "        if live.metadata.uid == owner.uid:\n",
            ),
        ),
        ("tests/cluster/write/test_action_calls.py::test_a_service_of_the_name_that_is_not_ours_is_not_taken_over",),
    ),
    Fault(
        "ownership.children-without-an-owner",
        "a deleted service leaves nothing behind, because its children name it as their controller",
        (Edit(OWNERSHIP, '        "ownerReferences": [owner_reference(owner)],\n', ""),),
        ("tests/workloads/objects/test_pod_template.py::test_the_controller_is_the_service",),
    ),
    Fault(
        "ownership.labels-copied",
        "children carry the labels of a list, never somebody else's",
        (
            Edit(
                "operator/forebay/workloads/objects/pod.py",
                '    metadata["annotations"] = template["metadata"]["annotations"]\n',
                '    metadata["annotations"] = template["metadata"]["annotations"]\n'
                '    metadata["labels"] |= {"app.kubernetes.io/instance": owner.key.name}\n',
            ),
        ),
        (
            "tests/workloads/objects/test_pod_template.py::test_labels_are_those_of_the_list_and_no_others",
            "tests/workloads/objects/test_pod_template.py::test_a_pod_template_brings_no_labels",
        ),
    ),
)
