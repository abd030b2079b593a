"""Builders for scaling: loads, limits and histories without any pod."""

from typing import Any

from forebay.scaling.history import PodHistory, remember
from forebay.scaling.latency import Latency
from forebay.scaling.limits import Limits
from forebay.scaling.load import Load, Silent
from tests.builders.world import NOW, a_histogram, a_sample


def a_load(
    replicas: int = 2,
    *,
    known: int | None = None,
    waiting: float = 0.0,
    running: float = 0.0,
    kv: float = 0.0,
    queue_time: Latency | None = None,
    time_to_first_token: Latency | None = None,
    inter_token_latency: Latency | None = None,
    silent: tuple[Silent, ...] = (),
    draining_requests: float = 0.0,
) -> Load:
    known = replicas - len(silent) if known is None else known
    return Load(
        replicas=replicas,
        known=known,
        waiting_requests=waiting,
        running_requests=running,
        kv_fraction=kv,
        kv_total=kv * known,
        queue_time=queue_time,
        time_to_first_token=time_to_first_token,
        inter_token_latency=inter_token_latency,
        silent=silent,
        draining_requests=draining_requests,
    )


def some_limits(**fields: Any) -> Limits:
    """1 to 10 replicas, and the defaults of the API."""
    return Limits(**{"max_replicas": 10, **fields})


def a_latency(observations: dict[float, float]) -> Latency:
    """So many observations of each value, in seconds."""
    histogram = a_histogram(observations)
    return Latency(histogram.bounds, histogram.counts, histogram.sum)


def a_history(*samples: dict[str, Any], every_seconds: float = 5.0, until: float = NOW) -> PodHistory:
    """Samples given by the arguments of `a_sample`, the last one taken at `until`."""
    history: PodHistory | None = None
    for index, fields in enumerate(samples):
        at = until - every_seconds * (len(samples) - 1 - index)
        history = remember(history, a_sample(**{"at": at, **fields}))
    assert history is not None
    return history
