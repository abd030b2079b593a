"""The spec of scaling: the SLO, the bounds of the replica count, the guards' targets, and rollouts."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from forebay.api.duration import PATTERN, Duration, between
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count
from forebay.api.schema.validation_rules import Rule, matches

MOST_REPLICAS = 1000
Cooldown = Annotated[Duration, between("1s", "24h")]


class TimeToFirstToken(Model):
    """Time from a request's arrival to its first token."""

    p95: Annotated[Duration, between("1ms", "1h")] = Duration("500ms")
    """19 of 20 requests get their first token within this time."""


class InterTokenLatency(Model):
    """Time between two output tokens of a request."""

    mean: Annotated[Duration, between("1ms", "10m")] = Duration("40ms")
    """Mean time between tokens."""


class QueueWait(Model):
    """Time in the engine's queue before prefill begins."""

    p99: Annotated[Duration, between("1ms", "1h")] = Duration("1s")
    """99 of 100 requests wait no longer than this."""


class EndToEnd(Model):
    """Time from a request's arrival to its last token."""

    p95: Annotated[Duration, between("1ms", "24h")]
    """19 of 20 requests end within this time."""


_BOTH_ARE_DURATIONS = f"{matches(PATTERN, 'self.endToEnd.p95')} && {matches(PATTERN, '($timeToFirstToken.p95)')}"
"""The rule is checked only for two valid durations: an invalid text has a message of its own and would make this rule
fail."""


def _ends_after_it_begins(slo: "SloSpec") -> bool:
    return slo.end_to_end is None or slo.end_to_end.p95.seconds > slo.time_to_first_token.p95.seconds


class SloSpec(Model):
    """The latency promised to users. Capacity is planned for it, and guards add replicas when it is broken."""

    rules = (
        Rule["SloSpec"](
            cel=f"!has(self.endToEnd) || !({_BOTH_ARE_DURATIONS})"
            " || duration(self.endToEnd.p95) > duration($timeToFirstToken.p95)",
            message="endToEnd.p95 is not above timeToFirstToken.p95 $timeToFirstToken.p95, which is a part of it; "
            "raise endToEnd.p95 or lower timeToFirstToken.p95",
            holds=_ends_after_it_begins,
            at="endToEnd.p95",
        ),
    )

    time_to_first_token: TimeToFirstToken = TimeToFirstToken()
    """Time from a request's arrival to its first token."""
    inter_token_latency: InterTokenLatency = InterTokenLatency()
    """Time between two output tokens of a request."""
    queue_wait: QueueWait = QueueWait()
    """Time in the engine's queue before prefill begins."""
    end_to_end: EndToEnd | None = None
    """Time from a request's arrival to its last token; capacity is planned for it. Absent: no such promise."""


class ScalingMode(StrEnum):
    """What Forebay may change: Auto scales with load; Recommend only advises on load; Paused leaves every pod alone."""

    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


class Targets(Model):
    """Thresholds above which guards add replicas."""

    queue_depth: Annotated[Count, Field(ge=1, le=100_000)] = 20
    """Waiting requests per replica."""
    kv_cache_percent: Annotated[Count, Field(ge=1, le=100)] = 80
    """Used share of the KV cache. Engines begin to evict and recompute well before 100."""


class ScalingSpec(Model):
    """Bounds of the replica count, and how fast it changes. The number itself is in status.replicas.desired."""

    rules = (
        Rule["ScalingSpec"](
            cel="$minReplicas <= $maxReplicas",
            message="minReplicas $minReplicas is above maxReplicas $maxReplicas; raise maxReplicas or "
            "lower minReplicas",
            holds=lambda scaling: scaling.min_replicas <= scaling.max_replicas,
            at="minReplicas",
        ),
        Rule["ScalingSpec"](
            cel="$minReplicas > 0 || has(self.scaleToZeroAfter)",
            message="minReplicas 0 needs scaleToZeroAfter, the idle time after which the last replica is removed; set "
            "it, such as 15m, or raise minReplicas to 1",
            holds=lambda scaling: scaling.min_replicas > 0 or scaling.scale_to_zero_after is not None,
            at="minReplicas",
        ),
    )

    mode: ScalingMode = ScalingMode.AUTO
    """`Auto` scales with load. `Recommend` replaces lost pods, obeys bounds and rolls out, but load only advises.
    `Paused` creates and deletes nothing."""
    min_replicas: Annotated[Count, Field(ge=0, le=MOST_REPLICAS)] = 1
    """Smallest number of replicas. 0 requires scaleToZeroAfter."""
    max_replicas: Annotated[Count, Field(ge=1, le=MOST_REPLICAS)] = 1
    """Largest number of replicas, including warm ones."""
    targets: Targets = Targets()
    """Thresholds above which guards add replicas."""
    headroom_percent: Annotated[Count, Field(ge=0, le=100)] = 20
    """Capacity kept free beyond what the load needs."""
    scale_up_cooldown: Cooldown = Duration("90s")
    """Shortest time between two scale-ups by guards."""
    scale_down_cooldown: Cooldown = Duration("300s")
    """How long the load must have been lower before a replica is drained."""
    scale_to_zero_after: Annotated[Duration, between("30s", "168h")] | None = None
    """How long the service must be idle before its last replica is removed, counted from the last request or from
    Ready, whichever is later. It takes effect with minReplicas 0. Absent: the last replica stays."""


class WarmPoolSpec(Model):
    """Capacity that is loaded before it is needed."""

    replicas: Annotated[Count, Field(ge=0, le=MOST_REPLICAS)] = 0
    """Loaded replicas that serve, beyond what the load needs and within scaling.maxReplicas."""
    placeholders: Annotated[Count, Field(ge=0, le=MOST_REPLICAS)] = 0
    """Replicas whose GPUs are held in advance by placeholders, beyond scaling.maxReplicas. Placeholders are pods of low
    priority that serve nothing, pull the engine's image, and are preempted by any serving pod."""


class WhenNoSpare(StrEnum):
    """What a rollout does if no GPU is free for a new pod beside the old ones."""

    AUTO = "Auto"
    WAIT = "Wait"
    REPLACE = "Replace"


class RolloutSpec(Model):
    """How pods are replaced and drained."""

    rules = (
        Rule["RolloutSpec"](
            cel="$maxSurge > 0 || $whenNoSpare != 'Wait'",
            message="maxSurge 0 with whenNoSpare Wait never replaces a pod; raise maxSurge or set whenNoSpare to Auto",
            holds=lambda rollout: rollout.max_surge > 0 or rollout.when_no_spare != WhenNoSpare.WAIT,
            at="maxSurge",
        ),
    )

    drain_timeout: Annotated[Duration, between("1s", "1h")] = Duration("300s")
    """How long a draining pod may take to finish its streams. It should be longer than the longest request."""
    max_surge: Annotated[Count, Field(ge=0, le=100)] = 1
    """Replicas that a rollout may add beyond the desired number."""
    when_no_spare: WhenNoSpare = WhenNoSpare.AUTO
    """What a rollout does if no GPU is free for a new pod: `Wait` for one, `Replace` old pods one by one, or `Auto`,
    which replaces while the load allows one replica less and waits otherwise."""
