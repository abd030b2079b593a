"""What every pod, its Service and its budget must have, whatever the spec says."""

from prove.fault import Edit, Fault

TEMPLATE = "operator/forebay/workloads/objects/pod_template.py"
LIFETIMES = "operator/forebay/workloads/spec/lifetimes.py"
TESTS = "tests/workloads/objects/test_pod_template.py"
LIFE = f"{TESTS}::test_the_grace_period_covers_pre_stop_drain_and_teardown"

FAULTS = (
    Fault(
        "pods.shutdown-timeout-zero",
        "an engine that is told to end finishes its streams within drainTimeout",
        (
            Edit(
                "operator/forebay/workloads/spec/engine_arguments.py",
                'f"--shutdown-timeout={drain_seconds(spec)}"',
                '"--shutdown-timeout=0"',
            ),
        ),
        (LIFE,),
    ),
    Fault(
        "pods.grace-too-short",
        "the grace period is longer than preStop, drain and teardown together",
        (
            Edit(
                LIFETIMES,
                "return PRE_STOP_SECONDS + drain_seconds(spec) + TEARDOWN_SECONDS",
                "return drain_seconds(spec)",
            ),
        ),
        (LIFE,),
    ),
    Fault(
        "pods.no-pre-stop",
        "an engine is told to end only after endpoint lists have had time to drop it",
        (Edit(TEMPLATE, '            "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},\n', ""),),
        (f"{TESTS}::test_no_engine_gets_sigterm_before_endpoint_lists_have_dropped_it",),
    ),
    Fault(
        "pods.started-by-health-alone",
        "a pod has started only after one real completion",
        (
            Edit(
                TEMPLATE,
                '"startupProbe": probes.startup_probe(spec, PORT, public_name(owner.key)),',
                '"startupProbe": probes.readiness_probe(),',
            ),
        ),
        (f"{TESTS}::test_a_pod_has_started_only_after_one_real_completion",),
    ),
    Fault(
        "pods.a-refusal-is-a-completion",
        "an engine that refuses the first completion has not started",
        (
            Edit(
                "operator/forebay/workloads/objects/probes.py",
                '    sys.exit(f"no completion yet: {error}")\n',
                '    print(f"no completion yet: {error}")\n',
            ),
        ),
        (
            f"{TESTS}::test_the_startup_probe_fails_with_a_reason_while_the_engine_refuses",
            f"{TESTS}::test_the_startup_probe_fails_with_a_reason_while_the_port_is_bound_and_nothing_listens",
        ),
    ),
    Fault(
        "pods.impatient-liveness",
        "a busy engine that answers late is not restarted",
        (Edit(LIFETIMES, "PROBE_TIMEOUT_SECONDS: Final = 10", "PROBE_TIMEOUT_SECONDS: Final = 1"),),
        (f"{TESTS}::test_liveness_is_patient_with_a_busy_engine",),
    ),
    Fault(
        "pods.service-links-on",
        "no Service of the namespace reaches the engine's environment",
        (Edit(TEMPLATE, '"enableServiceLinks": False,', '"enableServiceLinks": True,'),),
        (f"{TESTS}::test_no_service_of_the_namespace_reaches_the_engines_environment",),
    ),
    Fault(
        "pods.no-shared-memory",
        "GPUs of one engine talk over shared memory that is large enough",
        (Edit("operator/forebay/workloads/objects/volumes.py", '"medium": "Memory", ', ""),),
        (f"{TESTS}::test_shared_memory_is_backed_by_memory_when_gpus_talk",),
    ),
    Fault(
        "pods.not-restricted",
        "every pod passes the restricted profile",
        (Edit(TEMPLATE, '"allowPrivilegeEscalation": False,', '"allowPrivilegeEscalation": True,'),),
        (f"{TESTS}::test_a_namespace_that_enforces_the_restricted_profile_takes",),
    ),
    Fault(
        "pods.nodes-taken-from-under-streams",
        "node autoscalers may ask for a node, but not take it from under a stream",
        (
            Edit(
                TEMPLATE,
                '{labels.DO_NOT_DISRUPT: "true", labels.SAFE_TO_EVICT: "false"}',
                '{labels.DO_NOT_DISRUPT: "false", labels.SAFE_TO_EVICT: "true"}',
            ),
        ),
        (f"{TESTS}::test_node_autoscalers_leave_serving_pods_alone",),
    ),
    Fault(
        "pods.budget-too-small",
        "no serving pod can be evicted: the budget asks for as many as can ever serve",
        (
            Edit(
                "operator/forebay/planner/reconcile/children.py",
                "return (spec.scaling.max_replicas + spec.rollout.max_surge) * shape.pods",
                "return spec.scaling.min_replicas * shape.pods",
            ),
        ),
        (
            "tests/workloads/objects/test_child_objects.py::test_no_serving_pod_can_be_evicted",
            "tests/planner/report/test_service_status.py::test_the_budget_counts_pods",
        ),
    ),
    Fault(
        "pods.unready-pods-stuck-on-a-node",
        "the budget does not keep pods on a node that serve nobody",
        (
            Edit(
                "operator/forebay/workloads/objects/disruption_budget.py",
                '"unhealthyPodEvictionPolicy": "AlwaysAllow",',
                '"unhealthyPodEvictionPolicy": "IfHealthyBudget",',
            ),
        ),
        ("tests/workloads/objects/test_child_objects.py::test_pods_that_are_not_ready_may_be_evicted",),
    ),
)
