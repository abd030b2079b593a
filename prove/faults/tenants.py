"""A new quota takes nothing from anybody, and no tenant learns of another."""

from prove.fault import Fault
from prove.mutations import at, replaced, returns, value

FAULTS = (
    Fault(
        "tenants.younger-claim-wins",
        claim="what several quotas claim belongs to the oldest, and only the younger ones are told",
        planted="quotas are ordered from the youngest to the oldest",
        changes=(at("TenantQuotaView.age_order", returns("(-self.created_at, self.uid)")),),
        guards=(
            "test_the_older_claim_of_a_namespace_wins",
            "test_parents",
            "test_faults_of_a_quota",
            "test_the_younger_claim_of_a_namespace_counts_nothing_of_it",
            "test_the_younger_quota_is_told_and_the_older_one_is_not",
        ),
    ),
    Fault(
        "tenants.neighbour-in-a-status",
        claim="no message of a quota names another tenant, but the parent that the quota names itself",
        planted="who lost a namespace is told whose it is, and who is overcommitted, with whom",
        changes=(
            at("namespace_claimed", replaced("_named", "_ + str(case.claims.namespaces)")),
            at("coverage:above_max_replicas", replaced("_rounded", "str(sorted(division.parts)) + str(_)")),
        ),
        guards=(
            "test_a_fault_names_no_other_tenant_but_the_parent_that_the_quota_names",
            "test_no_sentence_names_another_tenant",
        ),
    ),
    Fault(
        "tenants.plain-tokens",
        claim="tokens are counted by the work that they cost, in tokens of the declared mix",
        planted="the measured mix is the unit, whatever is declared",
        changes=(at("token_rates", replaced("declared", "None")),),
        guards=("test_another_mix_is_counted_by_its_work",),
    ),
    Fault(
        "tenants.silence-is-no-use",
        claim="while nobody counts tokens, the last known use stays, and use that was never known is absent",
        planted="what nobody counts is 0",
        changes=(at("token_rates", replaced("used", "0.0", nth=1)),),
        guards=("test_what_nobody_counts_stays_as_last_known",),
    ),
    Fault(
        "tenants.peak-said-too-late",
        claim="guarantees that do not fit beside a window's floors are reported an hour before the window warms",
        planted="a window counts only once it warms",
        changes=(at("AHEAD_SECONDS", value("0.0")),),
        guards=("test_a_peak_that_is_overcommitted_is_said_an_hour_before_its_window_warms",),
    ),
    Fault(
        "tenants.shadow-acts",
        claim="a quota in mode Shadow changes nothing for anybody else",
        planted="a shadow quota takes part like any other",
        changes=(
            at("division:_division", replaced("mode", "None")),
            at("_overruns", replaced("mode", "QuotaMode.ENFORCE")),
        ),
        guards=(
            "test_a_shadow_quota_changes_nothing_for_the_others_and_says_what_it_would_have",
            "test_a_shadow_limit_is_not_applied_to_the_group_above",
            "test_a_shadow_quota_takes_nothing_from_its_siblings",
        ),
    ),
    Fault(
        "tenants.half-a-plan",
        claim="admission is told all shares of a model with one epoch, or none",
        planted="only the shards of a share plan that differ are written",
        changes=(
            at("share_plan_actions", replaced("names", "[n for n, s in zip(names, present) if s is None]", nth=3)),
        ),
        guards=("test_one_shard_that_differs_writes_all_of_them_with_a_later_epoch",),
    ),
)
