"""What is planned from is the cluster as it is, own writes included."""

from prove.fault import Edit, Fault

ACTIONS = "operator/forebay/cluster/write/action_calls.py"
CACHE = "operator/forebay/cluster/read/watch_cache.py"
TESTS = "tests/cluster/read/test_watch_cache.py"

FAULTS = (
    Fault(
        "view.own-writes-forgotten",
        "the next plan knows of the pods that the last one created, before the watch tells",
        (
            Edit(
                ACTIONS,
                "        self._memory.fold(PODS, answer)\n        placeholder =",
                "        placeholder =",
            ),
        ),
        ("tests/cluster/write/test_action_calls.py::test_a_new_pod_is_known_before_the_watch_tells",),
    ),
    Fault(
        "view.old-answers-overwrite-news",
        "an answer that was overtaken changes nothing",
        (
            Edit(
                CACHE,
                "if known is not None and (version == known.version or _after(known.version, version)):",
                "if known is not None and version == known.version:",
            ),
        ),
        (f"{TESTS}::test_an_own_write_that_was_overtaken_changes_nothing",),
    ),
    Fault(
        "view.ghosts-survive-a-list",
        "what a full LIST no longer has does not exist",
        (
            Edit(
                CACHE, "if _after(known.version, version if listed is None else listed.version):", "if listed is None:"
            ),
        ),
        (f"{TESTS}::test_an_expired_state_is_listed_again_and_ghosts_vanish",),
    ),
    Fault(
        "view.a-silent-watch-is-trusted",
        "a watch that says nothing is given up",
        (
            Edit(
                CACHE,
                "patience := min(self._pace.silence_seconds, self._list_due_at - self._clock())",
                "patience := self._list_due_at - self._clock()",
            ),
        ),
        (f"{TESTS}::test_a_silent_watch_is_given_up_after_90_s",),
    ),
)
