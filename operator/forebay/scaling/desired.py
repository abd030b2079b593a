"""Desired replicas: every rule proposes, the largest proposal binds, bounds cut it.

A new rule (feed-forward, backlog, schedule floors) is one more function in `RULES`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.api.inference_service import ScalingMode
from forebay.scaling import floors, guards
from forebay.scaling.decision import Decision, Proposal, count, number, percent, seconds
from forebay.scaling.latency import Latency
from forebay.scaling.limits import Limits
from forebay.scaling.load import Load
from forebay.scaling.outlook import Outlook
from forebay.scaling.stabilizer import Standing, stabilize
from forebay.scaling.watch import Watch, look


@dataclass(frozen=True, slots=True)
class Fleet:
    """The replicas of one service, counted."""

    serving: int = 0
    loading: int = 0
    """On their way: capacity that is coming."""
    blocked: int = 0
    """Stuck on their way: no capacity, but still there."""
    unplaced: int = 0
    """Of them, those that no node has room for."""
    draining: int = 0
    standing: int = 0
    """What was wanted before this operator began to remember, as far as status and pods tell."""
    newest_created_at: float | None = None
    """Tells when the count last rose, to an operator that has just started."""


@dataclass(frozen=True, slots=True)
class ScalingMemory:
    """What scaling remembers of a service between two looks."""

    desired: int | None = None
    raised_at: float | None = None
    """When the count last rose."""
    jumped_at: float | None = None
    """When a guard last made it rise."""
    watch: Watch = field(default_factory=Watch)


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that a rule may read."""

    limits: Limits
    load: Load
    fleet: Fleet
    mode: ScalingMode
    desired: int
    raised_at: float
    jumped_at: float
    watch: Watch
    outlook: Outlook
    now: float

    @property
    def floor(self) -> int:
        """The highest count that holds whatever the load is."""
        return min(max(proposal.replicas for proposal in floor_rules(self)), self.limits.max_replicas)

    @property
    def stuck(self) -> int:
        """Stuck replicas among those that are wanted; one that a rollout tries on top is not."""
        missing = self.desired - self.fleet.serving - self.fleet.loading
        return max(0, min(missing, self.fleet.blocked))

    @property
    def replaceable(self) -> int:
        """Stuck replicas that another one may do better than.

        When no node has room, one more is tried and no further ones: they would all wait for the same GPU, and all be
        there when it comes.
        """
        fleet = self.fleet
        return min(self.stuck, fleet.blocked - fleet.unplaced + min(fleet.unplaced, 1))


def guard_rules(situation: Situation) -> tuple[Proposal, ...]:
    """What the guards propose, on top of stuck replicas, which carry nothing.

    They wait while replicas that they asked for load, since the signal they look at is not cured before those serve,
    and for scaleUpCooldown between two steps.
    """
    waits_for = _guards_wait_for(situation)
    stuck = situation.replaceable
    return tuple(
        replace(
            proposal,
            replicas=proposal.replicas + stuck,
            because=f"{proposal.because}; {count(stuck, 'stuck replica')} not counted" if stuck else proposal.because,
            waits_for=waits_for,
        )
        for proposal in guards.propose(situation.load, situation.limits)
    )


def floor_rules(situation: Situation) -> tuple[Proposal, ...]:
    limits = situation.limits
    return (floors.min_replicas(limits), *(floors.with_warm(floor, limits) for floor in situation.outlook.floors))


def stabilizer_rules(situation: Situation) -> tuple[Proposal, ...]:
    """Nothing at the floor, which needs nobody to hold it."""
    if situation.desired <= situation.floor:
        return ()
    return (stabilize(_standing(situation)),)


NOTHING_AHEAD: Final = Outlook()
Rule = Callable[[Situation], tuple[Proposal, ...]]
RULES: Final[tuple[Rule, ...]] = (guard_rules, stabilizer_rules, floor_rules)


def decide(
    limits: Limits,
    load: Load,
    fleet: Fleet,
    mode: ScalingMode,
    memory: ScalingMemory,
    now: float,
    outlook: Outlook = NOTHING_AHEAD,
) -> tuple[Decision, ScalingMemory]:
    """The decision for one service, and what to remember of it. The first rule wins a tie."""
    began = now if fleet.newest_created_at is None else min(now, fleet.newest_created_at)
    situation = Situation(
        limits=limits,
        load=load,
        fleet=fleet,
        mode=mode,
        desired=fleet.standing if memory.desired is None else memory.desired,
        raised_at=began if memory.raised_at is None else memory.raised_at,
        jumped_at=began if memory.jumped_at is None else memory.jumped_at,
        watch=look(memory.watch, load, limits, now),
        outlook=outlook,
        now=now,
    )
    proposals = tuple(proposal for rule in RULES for proposal in rule(situation))
    counted = [proposal for proposal in proposals if not proposal.waits_for]
    largest = max(counted, key=lambda proposal: proposal.replicas)
    bound = floors.max_replicas(largest, limits)
    applied = bound.replicas if mode is ScalingMode.AUTO else _advised_only(situation)
    decision = Decision(
        desired=bound.replicas,
        rule=bound.rule,
        because=bound.because,
        applied=applied,
        proposals=proposals,
        inputs=_inputs(situation, proposals),
        unbounded=largest.replicas,
        before=situation.desired,
    )
    return decision, _remember(situation, applied, largest.rule)


def _advised_only(situation: Situation) -> int:
    """Load only advises: the count stays as it is, within its bounds."""
    return min(max(situation.desired, situation.floor), situation.limits.max_replicas)


def _remember(situation: Situation, applied: int, rule: str) -> ScalingMemory:
    rose = applied > situation.desired
    by_guard = rose and rule in {guard.__name__ for guard in guards.GUARDS}
    return ScalingMemory(
        desired=applied,
        raised_at=situation.now if rose else situation.raised_at,
        jumped_at=situation.now if by_guard else situation.jumped_at,
        watch=situation.watch,
    )


def _guards_wait_for(situation: Situation) -> str:
    fleet, limits = situation.fleet, situation.limits
    coming = situation.desired - situation.stuck - fleet.serving
    if fleet.loading and coming > 0:
        return f"{count(min(fleet.loading, coming), 'replica')} still loading"
    if situation.now - situation.jumped_at < limits.scale_up_cooldown_seconds:
        return f"scaleUpCooldown of {seconds(limits.scale_up_cooldown_seconds)}"
    return ""


def _standing(situation: Situation) -> Standing:
    return Standing(
        desired=situation.desired,
        serving=situation.fleet.serving,
        draining=situation.fleet.draining,
        raised_at=situation.raised_at,
        load=situation.load,
        watch=situation.watch,
        limits=situation.limits,
        now=situation.now,
    )


def _inputs(situation: Situation, proposals: tuple[Proposal, ...]) -> dict[str, str]:
    load, limits, fleet = situation.load, situation.limits, situation.fleet
    inputs = {
        "bounds": f"{limits.min_replicas} to {limits.max_replicas} replicas",
        "serving": str(fleet.serving),
        "loading": str(fleet.loading),
        "metrics": str(load.freshness) if load.replicas else "none: no replica serves",
    }
    if fleet.blocked:
        inputs["stuck"] = str(fleet.blocked)
    if load.known:
        inputs["waiting"] = f"{number(load.waiting_requests)} requests, target {number(limits.queue_depth)} per replica"
        inputs["running"] = f"{number(load.running_requests)} requests"
        inputs["kvCache"] = f"{percent(load.kv_fraction)}, target {percent(limits.kv_fraction)}"
    for name, value, limit in (
        ("queueWait", _quantile(load.queue_time, 0.99), limits.queue_wait_seconds),
        ("timeToFirstToken", _quantile(load.time_to_first_token, 0.95), limits.time_to_first_token_seconds),
        ("interTokenLatency", _mean(load.inter_token_latency), limits.inter_token_latency_seconds),
    ):
        if value is not None:
            inputs[name] = f"{seconds(value)}, limit {seconds(limit)}"
    for proposal in proposals:
        waits = f", waits for {proposal.waits_for}" if proposal.waits_for else ""
        inputs[f"rule.{proposal.rule}"] = f"{count(proposal.replicas, 'replica')}{waits}"
    return inputs


def _quantile(seen: Latency | None, quantile: float) -> float | None:
    return None if seen is None else seen.quantile_seconds(quantile)


def _mean(seen: Latency | None) -> float | None:
    return None if seen is None else seen.mean_seconds
