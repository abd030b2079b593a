"""Pod histories: the recent samples of each pod, and why a sample is rejected."""

from collections.abc import Iterable, Mapping

from forebay.scaling.load.pod_history import MOST_REQUESTS_PER_SECOND, PodHistory, is_sound, leaps, remember
from forebay.scaling.load.signals import PodSignals
from forebay.world.world import PodView


def histories_of(
    pods: Iterable[PodView], signals: Mapping[str, PodSignals], before: Mapping[str, PodHistory]
) -> dict[str, PodHistory]:
    """Histories of the existing pods, with the newest sample of each added. Those of deleted pods are dropped."""
    histories: dict[str, PodHistory] = {}
    for pod in sorted(pods, key=lambda pod: pod.uid):
        history, reading = before.get(pod.uid), signals.get(pod.uid)
        if reading is not None and reading.sample is not None and is_sound(reading.sample):
            history = remember(history, reading.sample)
        if history is not None:
            histories[pod.uid] = history
    return histories


def why_silent(reading: PodSignals | None, history: PodHistory | None) -> str | None:
    """What is wrong with the pod's last answer; None when nothing is, or when there is no answer."""
    if reading is None or reading.sample is None or reading.error is not None:
        return None if reading is None else reading.error
    if not is_sound(reading.sample):
        return "its metrics for requests or for the KV cache are not numbers"
    if history is not None and leaps(history.newest, reading.sample):
        return f"it reports more than {MOST_REQUESTS_PER_SECOND:,.0f} new requests per second"
    return None
