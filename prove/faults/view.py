"""What is planned from is the cluster as it is, own writes included."""

from prove.fault import Fault
from prove.mutations import always, at, never, returns, value, without

FAULTS = (
    Fault(
        "view.old-answers-overwrite-news",
        claim="own writes are known at once, overtaken answers change nothing, and what a LIST lacks does not exist",
        planted="answers to own writes are dropped, an older version replaces a newer, and a LIST removes nothing",
        changes=(
            at("Actor._create", without("store_answer")),
            at("StatusWriter._write", without("store_answer")),
            at("WatchCache._put", never("_after", nth=2)),
            at("WatchCache._replace", always("_after")),
        ),
        guards=(
            "test_a_created_pod_is_known_before_its_watch_event",
            "test_a_status_that_was_written_is_known_before_its_watch_event",
            "test_an_outdated_answer_to_an_own_write_changes_nothing",
            "test_an_expired_version_causes_a_list_that_drops_deleted_objects",
        ),
    ),
    Fault(
        "view.a-silent-watch-is-trusted",
        claim="a watch that says nothing is given up, and a cache not confirmed for three minutes makes no world",
        planted="neither has a limit",
        changes=(at("WatchPace.silence_seconds", value("1e6")), at("UNTRUSTED_CACHE_SECONDS", value("1e6"))),
        guards=(
            "test_a_silent_watch_is_abandoned_after_90_s",
            "test_no_world_from_a_cache_unconfirmed_for_three_minutes",
        ),
    ),
    Fault(
        "view.unreadable-quotas-believed",
        claim="ResourceQuotas that cannot be read stop no tick, and old ones are not used",
        planted="a tick waits until they were listed, and they are used however old they are",
        changes=(
            at("WatchCache.ready", returns("self.synced")),
            at("Observer._readable_quotas", never("age")),
        ),
        guards=(
            "test_forbidden_quotas_stop_no_tick_and_are_reported_once",
            "test_quotas_unconfirmed_for_three_minutes_are_not_used",
        ),
    ),
)
