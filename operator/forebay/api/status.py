"""What Forebay reports. Texts are cut to their bounds rather than refused: no status helps nobody."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from forebay.api.learned_status import Learned
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, ListMap, clipped
from forebay.api.spec.schedule_spec import MOST_SCHEDULES, ScheduleState

_MANY = 1_000_000_000
_LARGEST_GENERATION = 2**53 - 1
"""The largest whole number that every JSON reader keeps."""

MOST_ASSUMPTIONS = 16
MOST_PROPOSALS = 32
MOST_LINES = 16
MOST_PAST_DECISIONS = 20

Amount = Annotated[Count, Field(ge=0, le=_LARGEST_GENERATION)]
Replicas = Annotated[Count, Field(ge=0, le=1_000_000)]
Generation = Annotated[Count, Field(ge=0, le=_LARGEST_GENERATION)]
Word = Annotated[str, clipped(128), Field(max_length=128)]
Line = Annotated[str, clipped(400), Field(max_length=400)]
Instant = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
Sentence = Annotated[str, clipped(2048), Field(max_length=2048)]


class Condition(Model):
    """One thing that is true, false or unknown of the service; True is always the good side."""

    type: Word
    """What it is about: Ready, Planned, MetricsFresh, QuotaAdmitted, Warm or UpToDate."""
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})]
    """True, False or Unknown."""
    reason: Word
    """One word in CamelCase that the troubleshooting guide explains."""
    message: Sentence = ""
    """A sentence with numbers and units."""
    last_transition_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: Generation = 0
    """The generation of the spec that it was decided for."""


class ReplicaStatus(Model):
    """Replicas by what they do now."""

    desired: Replicas = 0
    """What was decided."""
    ready: Replicas = 0
    """Serving."""
    loading: Replicas = 0
    """Created, not serving yet; they count as capacity on its way."""
    draining: Replicas = 0
    """Out of rotation, finishing their streams."""
    warm: Replicas = 0
    """Ready beyond what the load needs."""


class VariantState(StrEnum):
    """Whether the next replica may be of a variant."""

    NEXT = "Next"
    """The next replica is of it."""
    STANDBY = "Standby"
    """It may be used, when the one that is next cannot be had."""
    SHORT = "Short"
    """It could not be had, and is not tried again before a while."""


class VariantStatus(Model):
    """One of the service's shapes."""

    name: Word
    """Of the variant; `base` for the service's own shape."""
    ready: Replicas = 0
    """Replicas of it that serve."""
    loading: Replicas = 0
    """Created, not serving yet; stuck ones are not among them."""
    draining: Replicas = 0
    """Out of rotation, finishing their streams."""
    carries_percent: Annotated[Count, Field(ge=0, le=10_000)] = 100
    """What a replica of it carries, in percent of one of the service's own shape; 100 where that is not known."""
    state: VariantState
    """Next, Standby or Short."""
    message: Sentence = ""
    """Why it could not be had, and when it is tried again."""


class ScaledToZeroStatus(Model):
    """A service without replicas, because nothing was asked of it."""

    since: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the last replica was let go."""
    answered_wake: Word = ""
    """The value of the annotation forebay.dev/wake-requested-at that had been answered before; the same value wakes
    nothing again."""


class LoadStatus(Model):
    """Rounded; written at most every 30 s. Absent while unknown: missing is not zero."""

    queue: Annotated[Count, Field(ge=0, le=_MANY)] | None = None
    """Requests that wait, over all replicas."""
    kv_percent: Annotated[Count, Field(ge=0, le=100)] | None = None
    """Used share of the KV cache: the mean over the replicas of each one's peak of the last minute."""


class PlannedReplicas(Model):
    """Replicas that the traffic of the spec needs."""

    active: Replicas = 0
    """For the peak with its headroom."""
    warm: Replicas = 0
    """On top of them."""


class PlanStatus(Model):
    """The capacity plan of the spec: what `forebay plan` computes. Scaling does not follow it."""

    product: Word
    """The GPU it was planned for."""
    tensor_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """GPUs over which each layer is split."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """Stages into which the layers are split."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """Whole copies of the model in one pod."""
    kv_tokens_per_replica: Amount
    """Tokens that the KV cache of a replica holds."""
    max_concurrent_sequences: Amount
    """Requests of the mean length that a replica holds at once; of full length while no traffic is given."""
    replicas: PlannedReplicas | None = None
    """Absent without traffic, or when no number of replicas keeps the promises."""
    gpus: Amount | None = None
    """Of all these replicas."""
    tokens_per_minute: Amount | None = None
    """At the peak of the traffic."""
    tokens_per_minute_with_headroom: Amount | None = None
    """What to ask a quota of."""
    bound: Word | None = None
    """What a replica runs out of first: ITL, KV or sequences."""
    time_to_first_token_milliseconds: Amount | None = None
    """Expected at the peak, for 95 of 100 requests."""
    inter_token_milliseconds: Amount | None = None
    """Expected at the peak, on average."""
    assumptions: Annotated[tuple[Sentence, ...], Field(max_length=MOST_ASSUMPTIONS)] = ()
    """What it rests on."""


class CapacityStatus(Model):
    """What the replicas that serve can carry of the traffic's mix, within the promises."""

    tokens_per_minute: Amount
    """Of all that serve."""
    per_replica: Amount
    """Of one."""
    basis: Word
    """`profile`: coefficients measured for this model on this GPU; `declared`: an estimate from data sheets;
    `measured`: either one, corrected by what the service's own replicas have shown."""


class ProposalStatus(Model):
    """What one rule asked for."""

    rule: Word
    """Name of the function."""
    replicas: Replicas
    """The number that it proposes. The largest of those that count binds."""
    because: Line = ""
    """Why, in a sentence with its numbers."""
    waits_for: Line = ""
    """What it waits for before it counts, such as a cooldown; empty when it counts."""


class SignalsStatus(Model):
    """How much is known of the load: replicas that serve, and how many of them give metrics."""

    state: Word
    """Fresh; Stale or Lost while a replica is silent, which holds the number; NothingServes while none serves."""
    answering: Replicas = 0
    """Replicas whose metrics are fresh; the numbers of the decision are over these."""
    serving: Replicas = 0
    """Replicas that serve."""
    fresh_seconds: Amount = 0
    """Up to this age metrics are fresh."""
    silent_since: Instant | None = None
    """When the replica that has been silent for longest was last heard of; absent while all answer."""


class UpcomingStatus(Model):
    """Something that comes by itself."""

    at: Instant | None = None
    """When; absent when only the order is known."""
    what: Line
    """What happens then."""


class DecisionStatus(Model):
    """Why the number of replicas is what it is. Events and the command line say what stands here and nothing else."""

    rule: Word
    """Name of the function that bound the decision."""
    because: Sentence
    """The same in a sentence with its numbers."""
    desired: Replicas
    """The number that it led to."""
    inputs: Annotated[dict[str, Word], Field(max_length=64)] = Field(default_factory=dict)
    """What it was decided from."""
    signals: SignalsStatus | None = None
    """How much of the load is known."""
    proposals: Annotated[tuple[ProposalStatus, ...], Field(max_length=MOST_PROPOSALS)] = ()
    """What every rule asked for that had something to ask."""
    would_raise: Annotated[tuple[Line, ...], Field(max_length=MOST_LINES)] = ()
    """What would have to change for more replicas."""
    would_lower: Annotated[tuple[Line, ...], Field(max_length=MOST_LINES)] = ()
    """What would have to change for one replica less."""
    upcoming: Annotated[tuple[UpcomingStatus, ...], Field(max_length=MOST_LINES)] = ()
    """What comes next, the soonest first."""


class PastDecision(Model):
    """A decision that changed the number of replicas, or the rule that gives it."""

    at: Instant
    """When it was made."""
    rule: Word
    """Name of the function that bound it."""
    because: Line
    """Why, in a sentence with its numbers."""
    desired: Replicas
    """What the rules came to."""
    replicas: Replicas
    """What was worked towards; differs where scaling only advises."""
    before: Replicas
    """The same until then."""
    ready: Replicas = 0
    """Replicas that served then."""


class WindowStatus(Model):
    """One schedule: the window that is open, or else the next one, and how it stands with it."""

    name: Annotated[str, Field(max_length=63)]
    """Of the schedule."""
    state: ScheduleState
    """Idle, Warming, Met, AtRisk or Missed. Met and Missed are about the start, and stay until the window ends."""
    message: Sentence = ""
    """The same in a sentence: what is asked for, until when, and what is in the way."""
    warm_from: Instant | None = None
    """From when the floor counts, so that all of it is ready by the start."""
    start: Instant | None = None
    """When the window opens; absent when there is none ahead."""
    end: Instant | None = None
    """When it ends, and with it the floor."""
    ready_at: Instant | None = None
    """When as many as asked for were ready."""


class ScheduleStatus(WindowStatus):
    """One schedule of a service."""

    replicas: Replicas | None = None
    """What the floor comes to; absent while that cannot be told."""
    floor_released_at: Instant | None = None
    """When the last window ended; from then on the number follows the load again."""
    drains_until: Instant | None = None
    """By when the replicas that only that floor held have been drained at the latest, if the load lets them go:
    scaleDownCooldown, and drainTimeout for each of them, one after the other."""


class InferenceServiceStatus(Model):
    """What Forebay reports."""

    observed_generation: Generation = 0
    """The generation of the spec that this status is about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = ()
    """Conditions by type."""
    url: Annotated[str, clipped(512), Field(max_length=512)] | None = None
    """Where the service answers inside the cluster."""
    replicas: ReplicaStatus = ReplicaStatus()
    """Replicas by what they do now."""
    variants: Annotated[tuple[VariantStatus, ...], Field(max_length=9), ListMap("name")] = ()
    """The service's shapes in order of preference; absent for a service without variants."""
    scaled_to_zero: ScaledToZeroStatus | None = None
    """Present while no replica is wanted."""
    load: LoadStatus = LoadStatus()
    """What the replicas are under."""
    plan: PlanStatus | None = None
    """The capacity plan; absent while the spec does not say enough for one."""
    capacity: CapacityStatus | None = None
    """What the replicas that serve can carry of the mix that arrives, of the declared one before enough was seen;
    absent while neither is known."""
    decision: DecisionStatus | None = None
    """Why the number of replicas is what it is."""
    decisions: Annotated[tuple[PastDecision, ...], Field(max_length=MOST_PAST_DECISIONS)] = ()
    """The last decisions that changed the number or the rule, oldest first; of older ones only those that changed the
    number."""
    learned: Learned = None
    """What was learned of the service, for an operator that starts; absent while nothing was."""
    schedules: Annotated[tuple[ScheduleStatus, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """How it stands with each schedule."""
