"""Desired replicas: every rule proposes a count, the largest proposal wins, and maxReplicas cuts it.

Feed-forward, backlog and floors compute what is needed; warm replicas are added to their proposals. Guards and the
stabilizer start from the replicas that exist, which already include the warm ones.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision, Proposal, count, seconds
from forebay.scaling.decision_inputs import inputs_of
from forebay.scaling.limits import Limits
from forebay.scaling.rules import floors, guards
from forebay.scaling.rules.backlog import backlog
from forebay.scaling.rules.feed_forward import feed_forward
from forebay.scaling.rules.last_replica import keep_or_release, scaled_to_zero
from forebay.scaling.rules.queue_recovery import waits_for
from forebay.scaling.rules.situation import Situation, binding
from forebay.scaling.rules.stabilizer import ScaleDownInput, stabilize
from forebay.scaling.rules.thresholds import ThresholdInput, upcoming, would_lower, would_raise


def guard_rules(situation: Situation) -> tuple[Proposal, ...]:
    """Proposals of the guards, raised by the number of stuck replicas, which serve nothing.

    Guards wait while replicas load, because their signals cannot improve before those replicas serve. They also wait
    for scaleUpCooldown between two steps.
    """
    waits_for = _guards_wait_for(situation)
    stuck = situation.replaceable
    return tuple(
        replace(
            proposal,
            replicas=proposal.replicas + stuck,
            because=f"{proposal.because}; {_stuck_text(stuck, situation.stuck)}" if stuck else proposal.because,
            waits_for=waits_for,
        )
        for proposal in guards.propose(situation.load, situation.limits)
    )


def _stuck_text(counted: int, stuck: int) -> str:
    if counted < stuck:
        return f"plus {counted} for {stuck} stuck replicas, since more would get stuck for the same reason"
    return f"plus {counted} for {count(stuck, 'stuck replica')}, which {'serves' if stuck == 1 else 'serve'} nothing"


def arrival_rules(situation: Situation) -> tuple[Proposal, ...]:
    """Proposals for the work that arrives and the work that waits. Loading replicas are part of these counts."""
    offered_work, load, scaling_inputs = situation.offered_work, situation.load, situation.scaling_inputs
    arriving = (
        None if offered_work is None else feed_forward(offered_work, situation.limits, scaling_inputs, load.weights)
    )
    proposals = (arriving, backlog(offered_work, load, scaling_inputs))
    return tuple(floors.with_warm(proposal, situation.limits) for proposal in proposals if proposal is not None)


def floor_rules(situation: Situation) -> tuple[Proposal, ...]:
    return floors.floor_rules(situation.limits, situation.scaling_inputs.floors)


def stabilizer_rules(situation: Situation) -> tuple[Proposal, ...]:
    """A step down, or the reason to stay. At the floor there is no proposal, since the floor rules hold the count."""
    if situation.desired == situation.floor == situation.counts.serving == 0:
        return (scaled_to_zero(),)
    if situation.desired <= situation.floor > 0:
        return ()
    if situation.desired <= 1:
        return (keep_or_release(situation),)
    return (stabilize(ScaleDownInput(situation)),)


Rule = Callable[[Situation], tuple[Proposal, ...]]
RULES: Final[tuple[Rule, ...]] = (guard_rules, arrival_rules, stabilizer_rules, floor_rules)


def decide(situation: Situation) -> Decision:
    """The decision for one service. Nothing is stored here: `situation.remember` does that once the count is final."""
    limits = situation.limits
    by_rule = {rule: rule(situation) for rule in RULES}
    proposals = tuple(proposal for of_rule in by_rule.values() for proposal in of_rule)
    largest = binding(proposals)
    bound = floors.max_replicas(largest, limits)
    threshold_input = ThresholdInput(situation, proposals, bound.replicas, largest.replicas)
    return Decision(
        desired=bound.replicas,
        rule=bound.rule,
        because=bound.because,
        applied=bound.replicas if situation.mode is ScalingMode.AUTO else _advised_only(situation),
        proposals=proposals,
        inputs=inputs_of(situation, proposals),
        unbounded=largest.replicas,
        before=situation.desired,
        needed=_needed((*by_rule[arrival_rules], *by_rule[floor_rules]), limits),
        would_raise=would_raise(threshold_input),
        would_lower=would_lower(threshold_input),
        upcoming=upcoming(threshold_input),
    )


def _needed(proposals: Iterable[Proposal], limits: Limits) -> int:
    """The largest of the proposals of the arrival and floor rules, without the warm replicas that were added to it."""
    return max(proposal.replicas for proposal in proposals) - limits.warm_replicas


def _advised_only(situation: Situation) -> int:
    """The count in a mode where load only advises: unchanged, except that it stays within its bounds."""
    return min(max(situation.desired, situation.floor), situation.limits.max_replicas)


def _guards_wait_for(situation: Situation) -> str:
    counts, limits = situation.counts, situation.limits
    ordered = situation.desired - situation.stuck - counts.serving - counts.returning
    loading = counts.loading - counts.returning
    if loading > 0 and ordered > 0:
        return f"{count(min(loading, ordered), 'replica')} still loading"
    if situation.now - situation.guard_raised_at < limits.scale_up_cooldown_seconds:
        return f"scaleUpCooldown of {seconds(limits.scale_up_cooldown_seconds)}"
    return waits_for(situation.queue_recovery, limits, situation.now)
