"""How much one planner may do, whatever it believes."""

from prove.fault import Edit, Fault

LIMITS = "operator/forebay/planner/reconcile/blast_radius.py"
PLANNER = "operator/forebay/planner/planner.py"
TESTS = "tests/planner/reconcile/test_blast_radius.py"

FAULTS = (
    Fault(
        "blast-radius.implausible-world-believed",
        "a world in which everything has vanished is not acted on",
        (
            Edit(
                LIMITS,
                "if there == 0 and before >= many and now - since < limit_seconds:",
                "if there < 0 and before >= many:",
            ),
        ),
        (
            f"{TESTS}::test_an_implausible_world_is_held",
            f"{TESTS}::test_no_services_where_there_were_many_is_held",
        ),
    ),
    Fault(
        "blast-radius.a-held-plan-is-carried-out",
        "a plan that is held makes no call",
        (
            Edit(
                "operator/forebay/cluster/write/apply.py",
                "        if plan.held is not None:\n",
                "        if plan.held == '':\n",
            ),
        ),
        ("tests/cluster/write/test_apply.py::test_a_plan_that_is_held_does_nothing",),
    ),
    Fault(
        "blast-radius.drains-unbounded",
        "drains per 10 minutes are bounded over all services",
        (
            Edit(LIMITS, "        if self.drains < 1:\n", "        if self.drains < 0:\n"),
            Edit(LIMITS, "        self.drains -= 1\n", ""),
        ),
        (
            f"{TESTS}::test_drains_per_ten_minutes_are_bounded_over_all_services",
            f"{TESTS}::test_a_mistaken_loss_of_nodes_is_bounded_like_drains",
        ),
    ),
    Fault(
        "blast-radius.creations-unbounded",
        "creations per minute are bounded over all services",
        (Edit(LIMITS, "        self.creates -= len(step.actions)\n", ""),),
        (f"{TESTS}::test_creations_per_minute_are_bounded_and_services_without_any_replica_come_first",),
    ),
    Fault(
        "blast-radius.gpu-ceiling-ignored",
        "the operator's GPU ceiling counts every pod there is",
        (
            Edit(
                LIMITS,
                "if self.gpus is not None and self.gpus < step.gpus:",
                "if self.gpus is not None and self.gpus < 0:",
            ),
        ),
        (f"{TESTS}::test_the_gpu_ceiling_counts_every_pod_there_is",),
    ),
    Fault(
        "blast-radius.one-fault-holds-all",
        "a fault in planning one service holds that service alone",
        (
            Edit(
                PLANNER,
                "        return _failed(service, memory, error, site.now)\n",
                "        raise error\n",
            ),
        ),
        (f"{TESTS}::test_a_fault_in_one_service_holds_that_service_alone",),
    ),
    Fault(
        "blast-radius.one-refusal-holds-all",
        "a call that is refused holds its own service only",
        (
            Edit(
                "operator/forebay/cluster/write/apply.py",
                "ledger.note(plan, action, error)\n            return False\n",
                "ledger.note(plan, action, error)\n            raise\n",
            ),
        ),
        ("tests/cluster/write/test_apply.py::test_a_failed_call_holds_its_own_service_only",),
    ),
    Fault(
        "blast-radius.a-dry-run-writes",
        "a dry run makes no call",
        (
            Edit(
                "operator/forebay/cluster/write/apply.py",
                "        if self._dry_run:\n",
                "        if self._dry_run is None:\n",
            ),
        ),
        ("tests/cluster/write/test_apply.py::test_a_dry_run_calls_nothing",),
    ),
)
