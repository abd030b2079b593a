"""The metric catalogue: which series of vLLM's `/metrics` carries which signal, per engine version.

vLLM renames series between releases (`gpu_cache_usage_perc` became `kv_cache_usage_perc`), and an autoscaler that knows
one name loses its signal after an upgrade. So every signal lists its names in order of preference, each with the
releases that export it. All names are looked up whatever the version; the version only decides which name comes first
and which one the answer should have. An unknown version gets the newest names first and is marked as unknown.

Sources: the Python files in the published wheels of vLLM 0.10.2 to 0.33.0 (`v1/metrics/loggers.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

ENGINE_PREFIX = "vllm:"
CACHE_CONFIG = "vllm:cache_config_info"
"""Matched by pod, never by model: it has no `model_name` label, and its labels change with each release."""

Version = tuple[int, int]
"""Major and minor number of a vLLM release."""

OLDEST: Version = (0, 10)
NEWEST: Version = (0, 33)

ALL_WAITING = "queue"
"""All waiting requests, for any reason. Minus those that wait for capacity, they are the `deferred_requests`."""


@dataclass(frozen=True, slots=True)
class Series:
    """The name of a series, exported by the releases from `since` up to, but not including, `until`."""

    name: str
    since: Version = OLDEST
    until: Version | None = None
    label: tuple[str, str] | None = None
    """Name and value of a label that selects the series; None selects all series of the name."""

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
"""The series of each field of `EngineSample` (and of `ALL_WAITING`), newest name first."""

HISTOGRAMS = frozenset({"time_to_first_token", "inter_token_latency", "queue_time"})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The series to look for in the metrics of one engine version."""

    version: str
    known: bool
    """False when the catalogue does not know the version; the newest names are then a guess."""
    preferences: Mapping[str, tuple[Series, ...]]
    """The series of each field of `EngineSample`: first those of this version, then those of other versions."""
    expected: Mapping[str, str]
    """The name of each field that this version should export; fields that it does not export are absent."""
    has_kv_cache_tokens: bool = True
    """Whether `cache_config_info` has `kv_cache_size_tokens`; older versions give blocks and block size."""


def wire_names() -> frozenset[str]:
    """All series names of all versions, for the reader of the text format."""
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
    """The catalogue of a version such as "0.32.0" or "v0.24.1+cpu"; any other text gets the newest, marked unknown."""
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
