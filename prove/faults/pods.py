"""What every pod, its Service and its budget must have, whatever the spec says."""

from prove.fault import Fault
from prove.mutations import at, entry, replaced, returns, value

FAULTS = (
    Fault(
        "pods.end-cuts-streams",
        claim="the kubelet gives an engine time to drop out of endpoint lists, to drain and to tear down",
        planted="no preStop hook, and a grace period of the drain alone",
        changes=(
            at("_container", entry("lifecycle", None)),
            at("grace_seconds", returns("drain_seconds(spec)")),
        ),
        guards=(
            "test_the_grace_period_covers_pre_stop_drain_and_teardown",
            "test_no_engine_gets_sigterm_before_endpoint_lists_have_dropped_it",
        ),
    ),
    Fault(
        "pods.started-by-health-alone",
        claim="a pod has started only after one real completion, and a busy engine that answers late is not restarted",
        planted="a refused completion is one, the health check is the startup probe, and probes wait a second",
        changes=(
            at("FIRST_COMPLETION", value('_.replace("sys.exit", "print")')),
            at("PROBE_TIMEOUT_SECONDS", value("1")),
            at("_container", entry("startupProbe", "probes.readiness_probe()")),
        ),
        guards=(
            "test_a_pod_has_started_only_after_one_real_completion",
            "test_liveness_has_long_timeouts",
        ),
    ),
    Fault(
        "pods.unsafe-environment",
        claim="every pod passes the restricted profile, without service links, with shared memory for its GPUs",
        planted="privileges may grow, Services reach the environment, and shared memory is on disk",
        changes=(
            at("CONTAINER_SECURITY", entry("allowPrivilegeEscalation", "True")),
            at("_pod_spec", entry("enableServiceLinks", "True")),
            at("pod_volumes", entry("medium", None)),
        ),
        guards=(
            "test_pods_pass_the_restricted_profile",
            "test_no_service_of_the_namespace_reaches_the_engines_environment",
            "test_shared_memory_is_backed_by_memory_when_gpus_talk",
        ),
        quick=True,
    ),
    Fault(
        "pods.evicted-under-streams",
        claim="neither evictions nor node autoscalers take a serving pod, and pods that serve nobody hold no node",
        planted="the budget asks for a surge alone and protects unready pods, and autoscalers may take nodes",
        changes=(
            at("min_available", replaced("max_replicas", "0")),
            at("disruption_budget_body", entry("unhealthyPodEvictionPolicy", '"IfHealthyBudget"')),
            at("UNDISTURBED", entry("DO_NOT_DISRUPT", '"false"')),
        ),
        guards=(
            "test_no_serving_pod_can_be_evicted",
            "test_the_budget_counts_pods",
            "test_pods_that_are_not_ready_may_be_evicted",
            "test_node_autoscalers_leave_serving_pods_alone",
        ),
    ),
)
