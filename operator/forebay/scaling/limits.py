"""Limits: the numbers of a spec that scaling works with, in base units (seconds, fractions)."""

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
    """Margin on top of what the load asks for, as a fraction."""
    queue_wait_seconds: float = 1.0
    """For the 99th percentile."""
    time_to_first_token_seconds: float = 0.5
    """For the 95th percentile."""
    inter_token_latency_seconds: float = 0.04
    """For the mean."""
    latency_share: float = 1.0
    """Of the three limits above, from which on they count as reached."""
    idle_token_seconds: float | None = None
    """Between two tokens on an engine that has nothing else to do; None while no profile tells."""
    max_num_seqs: int = 256
    """Requests that one engine works on at a time, of whichever variant; the rest wait."""
    scale_up_cooldown_seconds: float = 90.0
    scale_down_cooldown_seconds: float = 300.0
    scale_to_zero_after_seconds: float | None = None
    """How long nothing may be asked before the last replica goes; None when it never does."""

    @property
    def to_zero_after_seconds(self) -> float | None:
        """scaleToZeroAfter where it acts: a service with a minimum keeps it."""
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
            max_num_seqs=min((spec.engine.max_num_seqs, *(_sequences(spec, each) for each in spec.variants))),
            scale_up_cooldown_seconds=spec.scaling.scale_up_cooldown.seconds,
            scale_down_cooldown_seconds=spec.scaling.scale_down_cooldown.seconds,
            scale_to_zero_after_seconds=_seconds(spec.scaling.scale_to_zero_after),
        )


def _sequences(spec: InferenceServiceSpec, variant: VariantSpec) -> int:
    return variant.engine.max_num_seqs or spec.engine.max_num_seqs


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else duration.seconds
