"""Which series of vLLM's `/metrics` carries which signal, per engine version.

vLLM renames series between releases (`gpu_cache_usage_perc` became `kv_cache_usage_perc`), and an autoscaler that looks
for one name goes blind after an upgrade. So every signal has its names in order of preference, each with the releases
that have it. All names are always looked for: the version only says which of them comes first and which should be
there. A version that is not known gets the newest names first, the rest as aliases, and a flag to warn by.

Sources: the Python files in the published wheels of vLLM 0.10.2 to 0.33.0 (`v1/metrics/loggers.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

ENGINE_PREFIX = "vllm:"
CACHE_CONFIG = "vllm:cache_config_info"
"""Joined by pod, never by model: it has no `model_name`, and its label set changes with each release."""

Version = tuple[int, int]

OLDEST: Version = (0, 10)
NEWEST: Version = (0, 33)


ALL_WAITING = "queue"
"""All that wait, for whatever reason; less those that wait for capacity it gives `deferred_requests`."""


@dataclass(frozen=True, slots=True)
class Series:
    """A name on the wire, in the releases from `since` up to, not including, `until`."""

    name: str
    since: Version = OLDEST
    until: Version | None = None
    label: tuple[str, str] | None = None
    """Only the series with this label value; None means all of the name."""

    def is_in(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)


SIGNALS: Mapping[str, tuple[Series, ...]] = MappingProxyType(
    {
        "running_requests": (Series("vllm:num_requests_running"),),
        "waiting_requests": (
            Series("vllm:num_requests_waiting_by_reason", since=(0, 20), label=("reason", "capacity")),
            Series("vllm:num_requests_waiting"),
        ),
        ALL_WAITING: (
            Series("vllm:num_requests_waiting"),
            Series("vllm:num_requests_waiting_by_reason", since=(0, 20)),
        ),
        "kv_fraction": (
            Series("vllm:kv_cache_usage_perc"),
            Series("vllm:gpu_cache_usage_perc", until=(0, 12)),
        ),
        "engine_steps": (Series("vllm:iteration_tokens_total_count"),),
        "prompt_tokens": (
            Series("vllm:prompt_tokens_by_source_total", since=(0, 18), label=("source", "local_compute")),
            Series("vllm:prompt_tokens_total"),
        ),
        "generation_tokens": (Series("vllm:generation_tokens_total"),),
        "finished_requests": (Series("vllm:request_success_total"),),
        "finished_prompt_tokens": (Series("vllm:request_prompt_tokens_sum"),),
        "finished_output_tokens": (Series("vllm:request_generation_tokens_sum"),),
        "rejected_requests": (Series("vllm:admission_rejections_total", since=(0, 32)),),
        "preemptions": (Series("vllm:num_preemptions_total"),),
        "time_to_first_token": (Series("vllm:time_to_first_token_seconds"),),
        "inter_token_latency": (
            Series("vllm:inter_token_latency_seconds"),
            Series("vllm:time_per_output_token_seconds", until=(0, 15)),
        ),
        "queue_time": (Series("vllm:request_queue_time_seconds"),),
    }
)
"""By field of `EngineSample` (and `ALL_WAITING`), newest name first."""

HISTOGRAMS = frozenset({"time_to_first_token", "inter_token_latency", "queue_time"})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What to look for in the answers of one engine version."""

    version: str
    known: bool
    """False warns: the names are the newest known, and whether they fit is unproven."""
    preferences: Mapping[str, tuple[Series, ...]]
    """By field of `EngineSample`: names that this version has come first, then aliases."""
    expected: Mapping[str, str]
    """By field: the name that an answer of this version should have. A field that it cannot fill is absent."""
    has_kv_cache_tokens: bool = True
    """Whether `cache_config_info` says `kv_cache_size_tokens`; before it, blocks × block size."""


def wire_names() -> frozenset[str]:
    """Every name that a reader of the text format has to keep, of all versions."""
    names = {CACHE_CONFIG}
    for signal, alternatives in SIGNALS.items():
        for series in alternatives:
            if signal in HISTOGRAMS:
                names.update((f"{series.name}_bucket", f"{series.name}_sum"))
            else:
                names.add(series.name)
    return frozenset(names)


@lru_cache(maxsize=64)
def catalogue_for(engine_version: str | None) -> Catalogue:
    """The catalogue of `engine_version` ("0.32.0", "v0.24.1+cpu"); the newest, marked unknown, of any other text."""
    version = _parse(engine_version)
    known = version is not None and OLDEST <= version <= NEWEST
    assumed = version if version is not None and known else NEWEST
    expected = {}
    preferences = {}
    for signal, alternatives in SIGNALS.items():
        present = tuple(series for series in alternatives if series.is_in(assumed))
        preferences[signal] = present + tuple(series for series in alternatives if series not in present)
        if present:
            expected[signal] = present[0].name
    return Catalogue(
        version=engine_version or "",
        known=known,
        preferences=MappingProxyType(preferences),
        expected=MappingProxyType(expected),
        has_kv_cache_tokens=assumed >= (0, 24),
    )


def _parse(engine_version: str | None) -> Version | None:
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?![0-9])", engine_version or "", re.ASCII)
    return (int(match[1]), int(match[2])) if match else None
