"""At most one operator writes."""

from prove.fault import Edit, Fault

LEASE = "operator/forebay/cluster/client/lease.py"
OVERLAP = "tests/cluster/client/test_lease.py::test_terms_never_overlap_under_random_outages"

FAULTS = (
    Fault(
        "lease.a-standby-is-impatient",
        "a standby leads only after a whole term of silence by its own clock",
        (Edit(LEASE, "return now - self._seen[1] >= term", "return now - self._seen[1] >= term / 3"),),
        (
            "tests/cluster/client/test_lease.py::test_a_standby_waits_a_whole_term_of_silence_by_its_own_clock",
            OVERLAP,
        ),
    ),
    Fault(
        "lease.two-leaders-at-once",
        "a leader whose renewals fail stops leading before anybody else may begin",
        (
            Edit(
                LEASE,
                "        return self._monotonic() < self._leads_until\n",
                "        return self._monotonic() < self._leads_until + 10\n",
            ),
        ),
        (
            "tests/cluster/client/test_lease.py::test_a_term_ends_by_the_clock_whatever_the_thread_does",
            OVERLAP,
        ),
    ),
    Fault(
        "lease.a-term-counts-from-the-answer",
        "a term counts from before its renewal was sent",
        (
            Edit(
                LEASE,
                "self._leads_until = sent_at + self.times.renew_deadline_seconds",
                "self._leads_until = self._monotonic() + self.times.renew_deadline_seconds",
            ),
        ),
        ("tests/cluster/client/test_lease.py::test_a_term_counts_from_before_the_renewal_was_sent",),
    ),
    Fault(
        "lease.both-win-the-race",
        "of two that acquire at once one leads",
        (
            Edit(
                LEASE,
                'body = {"metadata": {"resourceVersion": version}, "spec": {**self._spec(), **more}}',
                'body = {"spec": {**self._spec(), **more}}',
            ),
        ),
        ("tests/cluster/client/test_lease.py::test_of_two_that_acquire_at_once_one_leads",),
    ),
    Fault(
        "lease.a-standby-writes",
        "who does not lead at the moment of a call does not make it",
        (
            Edit(
                "operator/forebay/cluster/write/write_gate.py",
                "            if not self._is_leader():\n",
                "            if self._is_leader is None:\n",
            ),
        ),
        (
            "tests/cluster/write/test_apply.py::test_who_does_not_lead_writes_nothing",
            "tests/cluster/write/test_apply.py::test_leadership_lost_half_way_stops_the_rest",
            "tests/cluster/write/test_status_writer.py::test_who_must_not_write_does_not",
        ),
    ),
    Fault(
        "lease.memory-of-an-earlier-term",
        "who begins to lead has watched nothing yet, whatever it knew in an earlier term",
        (
            Edit(
                "operator/forebay/controller/loop.py",
                "self._state = self._stations.empty_state(now)",
                "self._state = self._state or self._stations.empty_state(now)",
            ),
        ),
        ("tests/controller/test_loop.py::test_a_new_term_starts_without_the_memory_of_the_last",),
    ),
)
