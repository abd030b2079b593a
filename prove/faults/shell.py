"""The loop outlives faults and outages, and the process ends in one of two ways."""

from prove.fault import Edit, Fault

LOOP = "operator/forebay/controller/loop.py"
PULSE = "operator/forebay/runtime/loop_health.py"
PROCESS = "operator/forebay/controller/process.py"
WAKE = "operator/forebay/controller/wake.py"

FAULTS = (
    Fault(
        "shell.a-fault-ends-the-loop",
        "no exception ends the loop",
        (
            Edit(
                LOOP,
                "        except Exception as error:  # noqa: BLE001",
                "        except OSError as error:  # noqa: BLE001",
            ),
        ),
        ("tests/controller/test_loop.py::test_a_lasting_fault_never_ends_the_loop_but_turns_it_red",),
    ),
    Fault(
        "shell.a-standby-writes",
        "a standby observes and writes nothing",
        (Edit(LOOP, "        if not self._may_lead(now):", "        if not self._may_lead(now) and False:"),),
        ("tests/controller/test_loop.py::test_a_standby_observes_and_neither_plans_nor_writes",),
    ),
    Fault(
        "shell.a-held-plan-is-carried-out",
        "an implausible world takes no action",
        (Edit(LOOP, "if plan.held is None and self._is_leader():", "if self._is_leader():"),),
        ("tests/controller/test_loop.py::test_a_held_plan_writes_nothing_and_says_why_once",),
    ),
    Fault(
        "shell.a-dead-loop-is-green",
        "the health check turns red when planning has stopped",
        (
            Edit(
                PULSE,
                "self._write_age_seconds(now)) <= self.limit_seconds\n\n    def is_ready",
                "0.0) <= self.limit_seconds\n\n    def is_ready",
            ),
        ),
        (
            "tests/runtime/test_health.py::test_healthz_goes_by_the_age_of_the_last_good_tick",
            "tests/controller/test_loop.py::test_a_lasting_fault_never_ends_the_loop_but_turns_it_red",
        ),
    ),
    Fault(
        "shell.an-outage-kills-the-operator",
        "an API server that does not answer is no reason to restart",
        (Edit(PULSE, "error.status in (NO_ANSWER, TOO_MANY_REQUESTS)", "error.status in (TOO_MANY_REQUESTS,)"),),
        ("tests/controller/test_loop.py::test_a_long_outage_leaves_the_process_alive",),
    ),
    Fault(
        "shell.a-stop-cuts-the-tick",
        "a graceful stop lets the tick that runs finish before the lease goes",
        (Edit(PROCESS, "        await asyncio.wait({looping}, timeout=STOP_SECONDS)\n", ""),),
        ("tests/controller/test_process.py::test_a_graceful_end_lets_the_tick_finish_before_the_lease_goes",),
    ),
    Fault(
        "shell.a-lost-lease-is-given-back",
        "who has lost the lease ends at once and writes no more",
        (Edit(PROCESS, "    if cause.graceful:", "    if cause.code >= 0:"),),
        ("tests/controller/test_process.py::test_a_lost_lease_ends_at_once_and_writes_nothing_more",),
    ),
    Fault(
        "shell.a-stream-of-changes-starves-the-loop",
        "the debounce counts from the first change",
        (
            Edit(
                WAKE,
                "            await _within(self._settled, self._debounce_seconds)\n",
                "            self._changed.clear()\n"
                "            while await _within(self._changed, self._debounce_seconds):\n"
                "                self._changed.clear()\n",
            ),
        ),
        ("tests/controller/test_wake.py::test_a_burst_makes_one_tick_and_cannot_starve_it",),
    ),
)
