"""At most one operator writes."""

from prove.fault import Fault
from prove.mutations import always, at, entry, replaced, returns

FAULTS = (
    Fault(
        "lease.two-leaders-at-once",
        claim="the terms of two leaders never overlap: one stops by its own clock before another may begin",
        planted="a standby leads at once, terms last ten seconds longer, counted from the answer, and both win a race",
        changes=(
            at("Election._has_expired", always("term")),
            at("Election.leading", returns("self._monotonic() < self._leads_until + 10")),
            at("Election._term_started", replaced("sent_at", "self._monotonic()")),
            at("Election._write", entry("resourceVersion", None)),
        ),
        guards=(
            "test_a_standby_waits_a_whole_term_of_silence_by_its_own_clock",
            "test_a_term_ends_by_the_clock_whatever_the_thread_does",
            "test_a_term_counts_from_before_the_renewal_was_sent",
            "test_of_two_that_acquire_at_once_one_leads",
            "test_terms_never_overlap_under_random_outages",
        ),
    ),
    Fault(
        "lease.a-standby-writes",
        claim="who does not lead at the moment of a call does not make it",
        planted="nobody asks who leads",
        changes=(at("Gate._write", always("_is_leader")), at("Loop._tick", always("_update_leadership"))),
        guards=(
            "test_a_standby_writes_nothing",
            "test_lost_leadership_skips_the_remaining_actions",
            "test_a_standby_and_a_dry_run_write_no_status",
            "test_a_standby_observes_and_neither_plans_nor_writes",
        ),
        quick=True,
    ),
    Fault(
        "lease.memory-of-an-earlier-term",
        claim="who begins to lead has watched nothing yet, whatever it knew in an earlier term",
        planted="the state of an earlier term is kept",
        changes=(at("Loop._update_leadership", replaced("empty_state", "self._state or _")),),
        guards=("test_a_new_term_starts_with_an_empty_state",),
    ),
)
