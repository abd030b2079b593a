"""Up at once and in bounded steps, down only on proof, and early enough for what was learned of this service."""

from prove.fault import Fault
from prove.mutations import at, delegates, entry, never, returns, value

FAULTS = (
    Fault(
        "scaling.loading-replicas-not-counted",
        claim="guards wait for replicas that load, and stuck replicas are not ordered anew at every step",
        planted="a guard neither looks at what loads nor at what is stuck for want of room",
        changes=(
            at("_guards_wait_for", never("loading")),
            at("Situation.replaceable", returns("self.stuck")),
        ),
        guards=("test_guards_while_replicas_are_on_their_way", "test_what_a_guard_waits_for_is_in_the_record"),
    ),
    Fault(
        "scaling.no-cooldown",
        claim="guards add replicas once per scaleUpCooldown, and nothing goes before scaleDownCooldown is over",
        planted="both cooldowns are over at once",
        changes=(
            at("_guards_wait_for", never("scale_up_cooldown_seconds")),
            at("recently_raised", returns("None")),
            at("not_watched_in_full", returns("None")),
        ),
        guards=(
            "test_one_jump_per_cooldown",
            "test_reasons_to_keep_the_replica_count",
            "test_a_restart_takes_the_newest_pod_for_the_last_rise",
        ),
        quick=True,
    ),
    Fault(
        "scaling.blind-or-boundless-guards",
        claim="each guard alone is enough, and answers with one bounded step",
        planted="the guard of the KV cache never fires, and the largest step is 99 times the replicas there are",
        changes=(at("kv_cache", returns("None")), at("guards:LARGEST_STEP", value("99.0"))),
        guards=(
            "test_guards_are_ored_and_each_says_its_numbers",
            "test_queue_depth",
            "test_a_guard_raises_in_one_jump_and_is_remembered",
        ),
        quick=True,
    ),
    Fault(
        "scaling.down-against-the-load",
        claim="a replica goes only if the load of the whole window fits on those that stay, and the least busy goes",
        planted="the stabilizer asks neither for queue, work nor drains under way, and the busiest goes",
        changes=(
            at("queue_would_grow", returns("None")),
            at("work_would_not_fit", returns("None")),
            at("draining_now", returns("None")),
            at("order_of_leaving", returns("(-(replica.in_flight or 0.0), 0.0, 0.0, replica.name)")),
        ),
        guards=(
            "test_reasons_to_keep_the_replica_count",
            "test_a_large_fleet_goes_by_batches",
            "test_the_order_of_removal",
            "test_the_least_busy_serving_replica_with_the_emptiest_cache_drains",
        ),
    ),
    Fault(
        "scaling.taken-back",
        claim="the last replicas go one cooldown apart, and the KV cache left has room for a few more requests",
        planted="each step follows at once, and the headroom is a fifth of however few requests",
        changes=(at("recently_lowered", returns("None")), at("kv_margin", returns("limits.headroom"))),
        guards=(
            "test_reasons_to_keep_the_replica_count",
            "test_each_of_the_last_steps_down_waits_a_cooldown_after_the_change_before_it",
            "test_few_steps_down_are_taken_back",
        ),
    ),
    Fault(
        "scaling.arrivals-ignored",
        claim="replicas follow the work that arrives, at once in a surge, and unknown arrivals are not none",
        planted="no rule reads arrivals, a surge waits for its minute, and an engine that counts none has none",
        changes=(
            at("arrival_rules", returns("()")),
            at("Arrivals.requests_per_second", returns("self.in_the_last_minute(now)")),
            at("_accepted_requests", returns("(sample.finished_requests or 0.0) + sample.in_flight")),
        ),
        guards=(
            "test_the_count_follows_the_work_that_arrives",
            "test_from_zero_with_no_arrivals_and_a_queue_of_10",
            "test_a_surge_counts_before_the_minute_is_over",
            "test_requests_that_arrive_at_a_pod",
        ),
    ),
    Fault(
        "scaling.lead-time-ignored",
        claim="what is ordered covers this service's lead time and growth, and leaves room for a slower start",
        planted="lead time and growth are 0 to the rules, and the slowest start that was seen bounds all to come",
        changes=(
            at("decided_service", entry("lead_seconds", "0.0"), entry("growth", "0.0")),
            at("_prediction_bound", delegates("_nearest_rank")),
            at("Prospect.lead_seconds_for", returns("self.lead_seconds")),
        ),
        guards=(
            "test_waiting_work_is_weighed_by_the_lead_time_that_was_learned",
            "test_growth_and_lengths_are_learned_decide_and_outlive_the_operator",
            "test_the_bound_of_the_next_start_holds_after_few_starts",
            "test_ten_replicas_need_a_longer_lead_than_one",
        ),
    ),
    Fault(
        "scaling.learning-lost-on-restart",
        claim="what was learned outlives the operator, in the status and in the pods that live",
        planted="neither is read",
        changes=(at("recall", returns("Learned()")), at("learn_starts", never("longest_start_seconds"))),
        guards=(
            "test_an_operator_that_starts_goes_on_with_what_was_learned",
            "test_learned_data_survives_the_status",
            "test_starts_missing_from_the_status_are_learned_from_existing_pods",
        ),
    ),
    Fault(
        "scaling.remembered-before-it-is-final",
        claim="what scaling remembers is the count that sharing has left, not the one that was decided",
        planted="memory is written before the counts are shared out",
        changes=(
            at(
                "share:share",
                returns(
                    "granted(tuple(isolated(_with_memory, service) if isinstance(service, DecidedContext) else service"
                    " for service in services))"
                ),
            ),
        ),
        guards=("test_a_count_that_sharing_cuts_is_remembered_as_it_was_cut",),
    ),
)
