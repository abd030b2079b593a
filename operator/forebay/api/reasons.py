"""Every reason of a condition or an Event. Each has its heading in docs/troubleshooting.md.

Code that makes a condition or an Event takes a `Reason`, so the type checker refuses reasons that are not listed here.
"""

from enum import StrEnum


class Reason(StrEnum):
    """The reason in CamelCase, as conditions and Events show it."""

    # Ready
    SERVING = "Serving"
    SCALING_UP = "ScalingUp"
    LOADING = "Loading"
    SCALED_TO_ZERO = "ScaledToZero"
    PAUSED = "Paused"
    HELD_BACK = "HeldBack"

    # Replicas that do not start, or have hung
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    CRASH_LOOP = "CrashLoop"
    MODEL_LOAD = "ModelLoad"
    STALLED = "Stalled"

    # Planned: problems of a spec, and remarks about it
    PLANNED = "Planned"
    SPEC_INVALID = "SpecInvalid"
    SPEC_UNREADABLE = "SpecUnreadable"
    PLANNING_FAILED = "PlanningFailed"
    NAME_TAKEN = "NameTaken"
    POD_TEMPLATE_NOT_FOUND = "PodTemplateNotFound"
    POD_TEMPLATE_UNREADABLE = "PodTemplateUnreadable"
    ANNOTATION_RESERVED = "AnnotationReserved"
    ENGINE_VERSION_UNSUPPORTED = "EngineVersionUnsupported"
    ENGINE_VERSION_UNKNOWN = "EngineVersionUnknown"
    ENGINE_CHECKS_MODEL_NAME = "EngineChecksModelName"
    ENGINE_FLAG_RESERVED = "EngineFlagReserved"
    ENGINE_FLAG_UNAVAILABLE = "EngineFlagUnavailable"
    ENGINE_FLAG_INVALID = "EngineFlagInvalid"
    FORMAT_UNAVAILABLE = "FormatUnavailable"
    VARIANT_INVALID = "VariantInvalid"
    SCHEDULE_UNREADABLE = "ScheduleUnreadable"
    SCALE_TO_ZERO_INACTIVE = "ScaleToZeroInactive"
    WAKE_REQUEST_INVALID = "WakeRequestInvalid"
    DOES_NOT_FIT = "DoesNotFit"
    NOT_SIZED = "NotSized"
    PROMISE_AT_RISK = "PromiseAtRisk"
    BOUNDS_TOO_LOW = "BoundsTooLow"

    # MetricsFresh
    FRESH = "Fresh"
    NOTHING_SERVES = "NothingServes"
    METRICS_STALE = "MetricsStale"
    METRICS_LOST = "MetricsLost"
    SERIES_MISSING = "SeriesMissing"
    COUNTERS_IMPLAUSIBLE = "CountersImplausible"
    METRICS_BACK = "MetricsBack"

    # Warm
    NOT_ASKED = "NotAsked"
    WARM = "Warm"
    IN_USE = "InUse"
    MAX_REPLICAS = "MaxReplicas"
    PLACEHOLDERS_PENDING = "PlaceholdersPending"
    PLACEHOLDERS_HELD_BACK = "PlaceholdersHeldBack"
    LOAD_UNKNOWN = "LoadUnknown"

    # UpToDate, and the Events of a rollout
    UP_TO_DATE = "UpToDate"
    UPDATE_AVAILABLE = "UpdateAvailable"
    ROLLING_OUT = "RollingOut"
    ROLLOUT_STARTED = "RolloutStarted"
    ROLLOUT_FINISHED = "RolloutFinished"
    ROLLOUT_FAILED = "RolloutFailed"
    WAITING_FOR_SPARE = "WaitingForSpare"
    LEAVING_NODES = "LeavingNodes"

    # Ready and GuaranteesCovered of a TenantQuota
    QUOTA_ACTIVE = "QuotaActive"
    SHADOW = "Shadow"
    PARENT_UNKNOWN = "ParentUnknown"
    PARENT_CYCLE = "ParentCycle"
    NAMESPACE_CLAIMED = "NamespaceClaimed"
    KEY_CLAIMED = "KeyClaimed"
    KEY_EXPIRED = "KeyExpired"
    MODEL_UNKNOWN = "ModelUnknown"
    GUARANTEE_ABOVE_PARENT = "GuaranteeAboveParent"
    COVERED = "Covered"
    NO_GUARANTEES = "NoGuarantees"
    CAPACITY_UNKNOWN = "CapacityUnknown"
    OVERCOMMITTED = "Overcommitted"
    OVERCOMMITTED_AT_PEAK = "OvercommittedAtPeak"

    # Events of scaling, of schedules and of replicas
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    RULE_CHANGED = "RuleChanged"
    LEARNED_RESET = "LearnedReset"
    SCHEDULE_AT_RISK = "ScheduleAtRisk"
    SCHEDULE_MET = "ScheduleMet"
    SCHEDULE_MISSED = "ScheduleMissed"
    SCHEDULE_READY_LATE = "ScheduleReadyLate"
    VARIANT_USED = "VariantUsed"
    DRAIN_STARTED = "DrainStarted"
    DRAIN_CANCELLED = "DrainCancelled"
    REPLICA_ADOPTED = "ReplicaAdopted"

    # Why a replica is removed: on a draining pod, and in the Event when the replica ends
    SCALE_DOWN = "ScaleDown"
    NOT_NEEDED = "NotNeeded"
    ROLLOUT = "Rollout"
    NODE_DRAIN = "NodeDrain"
    NODE_NOTICE = "NodeNotice"
    NO_ROOM = "NoRoom"
    VARIANT_RETURN = "VariantReturn"
    LABEL_REMOVED = "LabelRemoved"
    DRAINED = "Drained"
    DRAIN_TIMEOUT = "DrainTimeout"
    CRASHED = "Crashed"
    NODE_LOST = "NodeLost"
    INCOMPLETE = "Incomplete"
    RANK_LOST = "RankLost"
    POD_FAILED = "PodFailed"
    POD_SUCCEEDED = "PodSucceeded"

    # Events of a replica that is stuck or deleted for one of the reasons above; the guide explains them there
    REPLICA_UNSCHEDULABLE = "ReplicaUnschedulable"
    REPLICA_QUOTA_EXCEEDED = "ReplicaQuotaExceeded"
    REPLICA_IMAGE_PULL = "ReplicaImagePull"
    REPLICA_CONTAINER_CONFIG = "ReplicaContainerConfig"
    REPLICA_CRASH_LOOP = "ReplicaCrashLoop"
    REPLICA_MODEL_LOAD = "ReplicaModelLoad"
    REPLICA_STALLED = "ReplicaStalled"
    REPLICA_SCALE_DOWN = "ReplicaScaleDown"
    REPLICA_NOT_NEEDED = "ReplicaNotNeeded"
    REPLICA_ROLLOUT = "ReplicaRollout"
    REPLICA_NODE_DRAIN = "ReplicaNodeDrain"
    REPLICA_NODE_NOTICE = "ReplicaNodeNotice"
    REPLICA_NO_ROOM = "ReplicaNoRoom"
    REPLICA_VARIANT_RETURN = "ReplicaVariantReturn"
    REPLICA_LABEL_REMOVED = "ReplicaLabelRemoved"
    REPLICA_DRAINED = "ReplicaDrained"
    REPLICA_DRAIN_TIMEOUT = "ReplicaDrainTimeout"
    REPLICA_CRASHED = "ReplicaCrashed"
    REPLICA_NODE_LOST = "ReplicaNodeLost"
    REPLICA_INCOMPLETE = "ReplicaIncomplete"
    REPLICA_RANK_LOST = "ReplicaRankLost"
    REPLICA_POD_FAILED = "ReplicaPodFailed"
    REPLICA_POD_SUCCEEDED = "ReplicaPodSucceeded"

    @property
    def of_replica(self) -> "Reason":
        """The Event of a replica that is stuck or removed for this reason. Raises ValueError if there is none."""
        return Reason(f"Replica{self}")
