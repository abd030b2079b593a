"""Histories: what is remembered of each pod's samples, and why a sample is not taken in."""

from collections.abc import Iterable, Mapping

from forebay.scaling.load.pod_history import MOST_REQUESTS_PER_SECOND, PodHistory, is_sound, leaps, remember
from forebay.scaling.load.signals import PodSignals
from forebay.world.world import PodView


def histories_of(
    pods: Iterable[PodView], signals: Mapping[str, PodSignals], before: Mapping[str, PodHistory]
) -> dict[str, PodHistory]:
    """Of the pods that exist; those of others are forgotten with them."""
    histories: dict[str, PodHistory] = {}
    for pod in sorted(pods, key=lambda pod: pod.uid):
        history, told = before.get(pod.uid), signals.get(pod.uid)
        if told is not None and told.sample is not None and is_sound(told.sample):
            history = remember(history, told.sample)
        if history is not None:
            histories[pod.uid] = history
    return histories


def why_silent(told: PodSignals | None, history: PodHistory | None) -> str | None:
    """What is wrong with the last answer; None when nothing is, or nothing came."""
    if told is None or told.sample is None or told.error is not None:
        return None if told is None else told.error
    if not is_sound(told.sample):
        return "what it says of its requests or its KV cache is no number"
    if history is not None and leaps(history.newest, told.sample):
        return f"it says that more than {MOST_REQUESTS_PER_SECOND:,.0f} requests a second came in"
    return None
