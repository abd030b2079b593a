"""What is planned from is the cluster as it is, own writes included."""

from prove.fault import Fault
from prove.mutations import always, at, never, value, without

FAULTS = (
    Fault(
        "view.old-answers-overwrite-news",
        claim="own writes are known at once, overtaken answers change nothing, and what a LIST lacks does not exist",
        planted="the answer of a creation is dropped, an older version replaces a newer, and a LIST removes nothing",
        changes=(
            at("Actor._create", without("store_answer")),
            at("WatchCache._put", never("_after", nth=2)),
            at("WatchCache._replace", always("_after")),
        ),
        guards=(
            "test_a_new_pod_is_known_before_the_watch_tells",
            "test_an_own_write_that_was_overtaken_changes_nothing",
            "test_an_expired_state_is_listed_again_and_ghosts_vanish",
        ),
    ),
    Fault(
        "view.a-silent-watch-is-trusted",
        claim="a watch that says nothing is given up, and a cache not confirmed for three minutes makes no world",
        planted="neither has a limit",
        changes=(at("WatchPace.silence_seconds", value("1e6")), at("UNTRUSTED_CACHE_SECONDS", value("1e6"))),
        guards=(
            "test_a_silent_watch_is_given_up_after_90_s",
            "test_what_was_not_confirmed_for_three_minutes_is_no_world",
        ),
    ),
)
