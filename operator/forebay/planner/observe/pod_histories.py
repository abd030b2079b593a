"""Pod histories: the recent samples of each pod, and why a sample is rejected."""

from collections.abc import Iterable, Mapping

from forebay.scaling.learning.replica_capacity import ReplicaCapacity
from forebay.scaling.load.counters import (
    ANY_ENGINE,
    MOST_STEPS_PER_SECOND,
    MOST_TOKENS,
    MOST_TOKENS_PER_SECOND,
    PROFILE_SLACK,
    EngineBounds,
)
from forebay.scaling.load.pod_history import (
    MOST_AHEAD_SECONDS,
    MOST_REQUESTS,
    MOST_REQUESTS_PER_SECOND,
    MOTIONLESS_SECONDS,
    PodHistory,
    is_sound,
    leaps,
    remember,
)
from forebay.scaling.load.signals import EngineSample, PodSignals
from forebay.world.world import PodView, ServiceView


def bounds_of(service: ServiceView) -> EngineBounds:
    """What the engines of one pod can do at most, by the spec and the profiles of all variants."""
    longest = None if service.spec is None else service.spec.model.max_model_len
    capacities = (service.replica_capacity, *(variant.replica_capacity for variant in service.variants))
    rates = [_fastest(capacity) for capacity in capacities]
    return EngineBounds(
        max_model_len=MOST_TOKENS if longest is None else longest,
        steps_per_second=max(steps for steps, _ in rates),
        output_tokens_per_second=max(tokens for _, tokens in rates),
    )


def _fastest(capacity: ReplicaCapacity | None) -> tuple[float, float]:
    """Steps and output tokens per second that no replica exceeds. A step without any work takes `step_seconds`."""
    if capacity is None:
        return MOST_STEPS_PER_SECOND, MOST_TOKENS_PER_SECOND
    engine = capacity.engine
    steps = PROFILE_SLACK * capacity.engines / engine.step_profile.step_seconds
    return steps, steps * engine.max_num_seqs * engine.tokens_per_step


def histories_of(
    pods: Iterable[PodView],
    signals: Mapping[str, PodSignals],
    before: Mapping[str, PodHistory],
    now: float,
    bounds: EngineBounds = ANY_ENGINE,
) -> dict[str, PodHistory]:
    """Histories of the existing pods, with the newest sample of each added. Those of deleted pods are dropped.

    A sample from the future is left out, since no later one would count before its time has come.
    """
    histories: dict[str, PodHistory] = {}
    for pod in sorted(pods, key=lambda pod: pod.uid):
        history, reading = before.get(pod.uid), signals.get(pod.uid)
        if reading is not None and reading.sample is not None and _usable(reading.sample, now):
            history = remember(history, reading.sample, pod.restarts, bounds)
        if history is not None:
            histories[pod.uid] = history
    return histories


def _usable(sample: EngineSample, now: float) -> bool:
    return is_sound(sample) and sample.taken_at <= now + MOST_AHEAD_SECONDS


def why_silent(reading: PodSignals | None, history: PodHistory | None) -> str | None:
    """What is wrong with the pod's last answer; None when nothing is, or when there is no answer."""
    if reading is None or reading.sample is None or reading.error is not None:
        return None if reading is None else reading.error
    known = history is not None and history.received is reading.sample
    if not known and not is_sound(reading.sample):
        return f"its gauges are not numbers that an engine can reach, such as at most {MOST_REQUESTS:,.0f} requests"
    if history is not None and history.motionless(MOTIONLESS_SECONDS):
        requests = history.newest.running_requests + history.newest.waiting_requests
        return f"it has {requests:.0f} requests and makes no step"
    if history is not None and not known and leaps(history.received, reading.sample):
        return f"it reports more than {MOST_REQUESTS_PER_SECOND:,.0f} new requests per second"
    return None
