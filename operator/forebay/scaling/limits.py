"""Limits: the numbers of a spec that scaling uses, in base units (seconds, fractions)."""

from dataclasses import dataclass
from typing import Self

from forebay.api.duration import Duration
from forebay.api.inference_service import InferenceServiceSpec, VariantSpec


@dataclass(frozen=True, slots=True)
class Limits:
    min_replicas: int = 1
    max_replicas: int = 1
    warm_replicas: int = 0
    queue_depth: float = 20.0
    """Waiting requests per replica."""
    kv_fraction: float = 0.8
    headroom: float = 0.2
    """Smallest margin added to the load, as a fraction."""
    queue_wait_seconds: float = 1.0
    """Limit of the 99th percentile."""
    time_to_first_token_seconds: float = 0.5
    """Limit of the 95th percentile."""
    inter_token_latency_seconds: float = 0.04
    """Limit of the mean."""
    latency_share: float = 1.0
    """A latency counts as late above this share of its limit; below 1 it counts before the limit is reached."""
    idle_token_seconds: float | None = None
    """a: time between two tokens on an engine with no other work; None while no profile gives it."""
    max_num_seqs: int = 256
    """Requests that one engine runs at a time, the smallest of all variants; further requests wait."""
    scale_up_cooldown_seconds: float = 90.0
    scale_down_cooldown_seconds: float = 300.0
    scale_to_zero_after_seconds: float | None = None
    """The last replica is removed after this long without a request; None when it stays."""

    @property
    def to_zero_after_seconds(self) -> float | None:
        """scaleToZeroAfter; None for a service with minReplicas or warm replicas, which never goes to zero."""
        return None if self.min_replicas + self.warm_replicas > 0 else self.scale_to_zero_after_seconds

    @classmethod
    def of(cls, spec: InferenceServiceSpec) -> Self:
        return cls(
            min_replicas=spec.scaling.min_replicas,
            max_replicas=spec.scaling.max_replicas,
            warm_replicas=spec.warm_pool.replicas,
            queue_depth=spec.scaling.targets.queue_depth,
            kv_fraction=spec.scaling.targets.kv_cache_percent / 100,
            headroom=spec.scaling.headroom_percent / 100,
            queue_wait_seconds=spec.slo.queue_wait.p99.seconds,
            time_to_first_token_seconds=spec.slo.time_to_first_token.p95.seconds,
            inter_token_latency_seconds=spec.slo.inter_token_latency.mean.seconds,
            max_num_seqs=min((spec.engine.max_num_seqs, *(_sequences(spec, variant) for variant in spec.variants))),
            scale_up_cooldown_seconds=spec.scaling.scale_up_cooldown.seconds,
            scale_down_cooldown_seconds=spec.scaling.scale_down_cooldown.seconds,
            scale_to_zero_after_seconds=_seconds(spec.scaling.scale_to_zero_after),
        )


def _sequences(spec: InferenceServiceSpec, variant: VariantSpec) -> int:
    return variant.engine.max_num_seqs or spec.engine.max_num_seqs


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else duration.seconds
