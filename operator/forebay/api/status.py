"""The status of an InferenceService, and the parts of it that other kinds share.

Texts that are too long are cut rather than refused, because a status without its end is better than no status.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from forebay.api.learned_status import Learned
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, ListMap, truncated
from forebay.api.spec.schedule_spec import MOST_SCHEDULES, ScheduleState

_MAX_REQUESTS = 1_000_000_000
_LARGEST_GENERATION = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""

MOST_ASSUMPTIONS = 16
MOST_PROPOSALS = 32
MOST_LINES = 16
MOST_PAST_DECISIONS = 20

MOST_REPLICAS = 1_000_000
LargeCount = Annotated[Count, Field(ge=0, le=_LARGEST_GENERATION)]
Replicas = Annotated[Count, Field(ge=0, le=MOST_REPLICAS)]
Generation = Annotated[Count, Field(ge=0, le=_LARGEST_GENERATION)]
ShortText = Annotated[str, truncated(128), Field(max_length=128)]
MediumText = Annotated[str, truncated(400), Field(max_length=400)]
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
LongText = Annotated[str, truncated(2048), Field(max_length=2048)]


class Condition(Model):
    """One statement about the object that is true, false or unknown. True is always the good state."""

    type: ShortText
    """Name of the condition: Ready, Planned, MetricsFresh, QuotaAdmitted, Warm, UpToDate or GuaranteesCovered."""
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})]
    """True, False or Unknown."""
    reason: ShortText
    """One word in CamelCase that the troubleshooting guide explains."""
    message: LongText = ""
    """A sentence with numbers and units."""
    last_transition_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: Generation = 0
    """The generation of the spec for which the condition was decided."""


class ReplicaStatus(Model):
    """Replicas, counted by their current state."""

    desired: Replicas = 0
    """Replicas that scaling decided on."""
    ready: Replicas = 0
    """Replicas that serve."""
    loading: Replicas = 0
    """Replicas that were created and do not serve yet; scaling counts them as capacity."""
    draining: Replicas = 0
    """Replicas that get no new requests and finish their streams."""
    warm: Replicas = 0
    """Ready replicas beyond what the load needs."""


class VariantState(StrEnum):
    """Whether the next replica may be of a variant."""

    NEXT = "Next"
    """The next replica uses this variant."""
    STANDBY = "Standby"
    """The variant may be used if the preferred one is unavailable."""
    SHORT = "Short"
    """The variant was unavailable and is not tried again for a while."""


class VariantStatus(Model):
    """The replicas and availability of one variant, or of the service's own shape."""

    name: ShortText
    """Name of the variant; `base` for the service's own shape."""
    ready: Replicas = 0
    """Replicas of this variant that serve."""
    loading: Replicas = 0
    """Replicas that were created and do not serve yet, without those that are stuck."""
    draining: Replicas = 0
    """Replicas that get no new requests and finish their streams."""
    carries_percent: Annotated[Count, Field(ge=0, le=10_000)] = 100
    """Capacity of one replica, in percent of a replica of the service's own shape; 100 while unknown."""
    state: VariantState
    """Next, Standby or Short."""
    message: LongText = ""
    """Why the variant is unavailable, and when it is tried again."""


class ScaledToZeroStatus(Model):
    """A service that has no replicas because it got no requests."""

    since: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the last replica was removed."""
    answered_wake: ShortText = ""
    """The last value of the annotation forebay.dev/wake-requested-at that the operator acted on. The same value wakes
    the service only once."""


class LoadStatus(Model):
    """The current load, rounded and written at most every 30 s. A field is absent while its value is unknown."""

    queue: Annotated[Count, Field(ge=0, le=_MAX_REQUESTS)] | None = None
    """Waiting requests of all replicas."""
    kv_percent: Annotated[Count, Field(ge=0, le=100)] | None = None
    """Used share of the KV cache: each replica's peak of the last minute, averaged over the replicas."""


class PlannedReplicas(Model):
    """Replicas that the traffic of the spec needs."""

    active: Replicas = 0
    """Replicas for the peak with its headroom."""
    warm: Replicas = 0
    """Warm replicas on top of the active ones."""


class PlanStatus(Model):
    """The capacity plan of the spec, as `forebay plan` computes it. Scaling does not follow it."""

    product: ShortText
    """The GPU that the plan is for."""
    tensor_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """GPUs over which each layer is split."""
    pipeline_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """Stages into which the layers are split."""
    data_parallel_size: Annotated[Count, Field(ge=1, le=1024)]
    """Whole copies of the model in one pod."""
    kv_tokens_per_replica: LargeCount
    """Tokens that the KV cache of a replica holds."""
    max_concurrent_sequences: LargeCount
    """Requests that a replica holds at once: of the mean length, or of full length if the spec has no traffic."""
    replicas: PlannedReplicas | None = None
    """Replicas that the traffic needs. Absent without traffic, or when no number of replicas keeps the SLO."""
    gpus: LargeCount | None = None
    """GPUs of all planned replicas."""
    tokens_per_minute: LargeCount | None = None
    """Tokens per minute at the peak of the traffic."""
    tokens_per_minute_with_headroom: LargeCount | None = None
    """Tokens per minute to ask for as a quota: the peak with its headroom."""
    bound: ShortText | None = None
    """The limit that a replica reaches first: ITL, KV or sequences."""
    time_to_first_token_milliseconds: LargeCount | None = None
    """Time to first token that 95 of 100 requests are expected to keep at the peak."""
    inter_token_milliseconds: LargeCount | None = None
    """Mean time between tokens expected at the peak."""
    assumptions: Annotated[tuple[LongText, ...], Field(max_length=MOST_ASSUMPTIONS)] = ()
    """Assumptions behind the plan."""


class CapacityStatus(Model):
    """Traffic that the serving replicas can carry within the SLO, at the current mix of request lengths."""

    tokens_per_minute: LargeCount
    """Tokens per minute of all serving replicas."""
    per_replica: LargeCount
    """Tokens per minute of one replica."""
    basis: ShortText
    """`profile`: coefficients measured for this model on this GPU; `declared`: an estimate from data sheets;
    `measured`: either of them, corrected by measurements of the service's own replicas."""


class ProposalStatus(Model):
    """The proposal of one rule."""

    rule: ShortText
    """Name of the rule's function."""
    replicas: Replicas
    """Replicas that the rule proposes. The largest proposal that counts decides."""
    because: MediumText = ""
    """The reason, in a sentence with its numbers."""
    waits_for: MediumText = ""
    """What must happen before the proposal counts, such as the end of a cooldown; empty when it counts."""


class SignalsStatus(Model):
    """How much of the load is known: the serving replicas, and how many of them report metrics."""

    state: ShortText
    """Fresh; Stale or Lost while a replica reports no metrics, which holds the replica count; NothingServes while no
    replica serves."""
    answering: Replicas = 0
    """Replicas whose metrics are fresh; the decision's numbers are about these."""
    serving: Replicas = 0
    """Replicas that serve."""
    fresh_seconds: LargeCount = 0
    """Largest age at which metrics count as fresh, in seconds."""
    silent_since: Timestamp | None = None
    """Oldest time of the last metrics among the replicas that report none now; absent while all report metrics."""


class UpcomingStatus(Model):
    """A change that will come without further input."""

    at: Timestamp | None = None
    """When the change comes; absent when only the order is known."""
    what: MediumText
    """The change."""


class DecisionStatus(Model):
    """Why the number of replicas is what it is. Events and the command line repeat exactly what is written here."""

    rule: ShortText
    """Name of the function whose proposal decided."""
    because: LongText
    """The reason, in a sentence with its numbers."""
    desired: Replicas
    """Replicas decided on."""
    inputs: Annotated[dict[str, ShortText], Field(max_length=64)] = Field(default_factory=dict)
    """Values that the decision was made from."""
    signals: SignalsStatus | None = None
    """How much of the load is known."""
    proposals: Annotated[tuple[ProposalStatus, ...], Field(max_length=MOST_PROPOSALS)] = ()
    """Proposals of all rules that made one."""
    would_raise: Annotated[tuple[MediumText, ...], Field(max_length=MOST_LINES)] = ()
    """Changes that would lead to more replicas."""
    would_lower: Annotated[tuple[MediumText, ...], Field(max_length=MOST_LINES)] = ()
    """Changes that would lead to one replica less."""
    upcoming: Annotated[tuple[UpcomingStatus, ...], Field(max_length=MOST_LINES)] = ()
    """Changes that will come without further input, soonest first."""


class PastDecision(Model):
    """A past decision that changed the number of replicas or the rule behind it."""

    at: Timestamp
    """When the decision was made."""
    rule: ShortText
    """Name of the function whose proposal decided."""
    because: MediumText
    """The reason, in a sentence with its numbers."""
    desired: Replicas
    """Replicas that the rules decided on."""
    replicas: Replicas
    """Replicas that the operator worked towards; differs from desired where scaling only advises."""
    before: Replicas
    """Replicas that the operator worked towards before this decision."""
    ready: Replicas = 0
    """Replicas that served at that time."""


class WindowStatus(Model):
    """The state of one schedule: of its open window, or else of the next one."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the schedule."""
    state: ScheduleState
    """Idle, Warming, Met, AtRisk or Missed. Met and Missed are about the start, and stay until the window ends."""
    message: LongText = ""
    """The state in a sentence: what the schedule asks for, until when, and what prevents it."""
    warm_from: Timestamp | None = None
    """When the floor begins to count, so that all of it is ready by the start."""
    start: Timestamp | None = None
    """When the window opens; absent when no further window follows."""
    end: Timestamp | None = None
    """When the window and its floor end."""
    ready_at: Timestamp | None = None
    """When the whole floor was ready."""


class ScheduleStatus(WindowStatus):
    """The state of one schedule of a service."""

    replicas: Replicas | None = None
    """The floor in replicas; absent while it cannot be computed."""
    floor_released_at: Timestamp | None = None
    """When the last window ended. From then on the replica count follows the load again."""
    drains_until: Timestamp | None = None
    """Latest time by which the replicas that only that floor held are drained, if the load allows it:
    scaleDownCooldown, plus drainTimeout for each of them in turn."""


class InferenceServiceStatus(Model):
    """The state that Forebay reports."""

    observed_generation: Generation = 0
    """The generation of the spec that this status is about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = ()
    """Conditions by type."""
    url: Annotated[str, truncated(512), Field(max_length=512)] | None = None
    """URL of the service inside the cluster."""
    replicas: ReplicaStatus = ReplicaStatus()
    """Replicas, counted by their current state."""
    variants: Annotated[tuple[VariantStatus, ...], Field(max_length=9), ListMap("name")] = ()
    """The service's own shape and its variants, in order of preference; absent for a service without variants."""
    scaled_to_zero: ScaledToZeroStatus | None = None
    """Present while the service is scaled to zero."""
    load: LoadStatus = LoadStatus()
    """The current load of the replicas."""
    plan: PlanStatus | None = None
    """The capacity plan; absent while the spec does not say enough for one."""
    capacity: CapacityStatus | None = None
    """Traffic that the serving replicas can carry, at the mix of request lengths that arrives, or at the declared mix
    until enough requests have finished. Absent while neither mix is known."""
    decision: DecisionStatus | None = None
    """Why the number of replicas is what it is."""
    decisions: Annotated[tuple[PastDecision, ...], Field(max_length=MOST_PAST_DECISIONS)] = ()
    """The last decisions that changed the replica count or the rule, oldest first. Of older decisions only those that
    changed the number are kept."""
    learned: Learned = None
    """What the operator learned about the service, for its next start; absent until something was learned."""
    schedules: Annotated[tuple[ScheduleStatus, ...], Field(max_length=MOST_SCHEDULES), ListMap("name")] = ()
    """The state of each schedule."""
