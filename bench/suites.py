"""The suites of the policy benchmark: the traffic, the service, and the traffic on which peers are tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from forebay.capacity.model.replica_model import Promise
from forebay.simulation.traffic.servegen import Client, digest_of, read_clients, servegen
from forebay.simulation.traffic.traces import Trace, between, rate_factor, read_file, steps, synthetic, with_lengths_of

ROOT = Path(__file__).resolve().parent.parent
EXCERPT = ROOT / "examples" / "traces" / "azure-2023-conv-first-15-minutes.csv"
CONVERSATION: Final = "azure-2023/AzureLLMInferenceTrace_conv.csv"
TUNING_SHARE: Final = 1 / 3
WEEK_SECONDS: Final = 7 * 86_400.0
TUNED_IN_SECONDS: Final = 2 * 3600.0
"""Peers are tuned on this much of an evening: the hour before its peak and the first hour of it."""
EVENING: Final = (8 * 86_400.0 + 18 * 3600.0, 8 * 86_400.0 + 22 * 3600.0)
"""Begin and end of the judged evening, in seconds of ServeGen: the hours around the daily peak of the second week."""
EPOCH: Final = 1_750_010_400.0
"""2025-06-15T18:00:00Z: the time at which the evening begins for clocks and cron lines."""
PEAK: Final = (3600.0, 4 * 3600.0)
"""19:00 to 22:00 of that evening, in seconds since it begins."""
CROWD: Final = (1200.0, 3000.0)
"""Begin and end of the flash crowd, in seconds."""
PROMISED: Final = Promise(0.5, 0.04)
"""A request within these limits is in time, in every suite; `prefill_on_top` adds the request's own prefill."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One recording or shape, and the service that serves it."""

    name: str
    says: str
    source: str = ""
    """A file in the folder of traces; empty for a shape."""
    rate: float = 1.0
    most: int = 16
    """scaling.maxReplicas."""
    cold_start_seconds: float = 120.0
    window: tuple[float, float] | None = None
    """Begin and end of a scheduled peak, which policies with a calendar know in advance."""
    slo: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`spec.slo` of the manifest, where it differs from the default."""
    prefill_on_top: bool = False
    """The first token's limit is 500 ms plus the prefill of the request's own prompt, not the SLO of the manifest."""
    flash_crowd: tuple[float, float] | None = None
    """Begin and end of a flash crowd."""
    sheds: bool = False
    """Whether the gateway sheds requests that no replica can take within the latency limit."""


SUITES: Final = (
    Suite("A", "Azure 2023 conversation, to about 8 replicas", CONVERSATION, 5.0, most=24),
    Suite(
        "B",
        "an evening of ServeGen m-small with conversation lengths, its peak scheduled",
        rate=20 / 1709,
        most=24,
        window=PEAK,
    ),
    Suite(
        "C",
        "Mooncake conversation: long contexts; in time is what begins within 500 ms and its own prefill",
        "mooncake-fast25/conversation_trace.jsonl",
        most=40,
        slo={"timeToFirstToken": {"p95": "3s"}},
        prefill_on_top=True,
    ),
    Suite("D", "a flash crowd: three times the requests within half a minute", flash_crowd=CROWD),
    Suite(
        "D-shed",
        "the same flash crowd, with a gateway that sheds what no replica has room for",
        flash_crowd=CROWD,
        sheds=True,
    ),
    Suite("F", "Azure 2023 code: prefill in bursts", "azure-2023/AzureLLMInferenceTrace_code.csv", 2.0, most=64),
)
QUICK: Final = Suite("quick", "the first 15 minutes of Azure 2023 conversation", rate=4.0)


def manifest(suite: Suite, window_replicas: int = 0) -> dict[str, Any]:
    """A 70B model on four H100 per replica: a few requests per second fill a replica, so an hour needs scaling."""
    spec: dict[str, Any] = {
        "model": {"source": "hf://meta-llama/Llama-3.1-70B-Instruct"},
        "engine": {"tensorParallelSize": 4},
        "gpu": {"product": "NVIDIA-H100-80GB-HBM3"},
        "scaling": {"minReplicas": 1, "maxReplicas": suite.most},
    }
    if suite.slo:
        spec["slo"] = dict(suite.slo)
    if suite.window and window_replicas:
        hours = (suite.window[1] - suite.window[0]) / 3600
        peak = {"name": "peak", "start": "0 19 * * *", "timeZone": "UTC", "duration": f"{hours:.0f}h"}
        spec["schedules"] = [peak | {"floor": {"replicas": window_replicas}}]
    return {"metadata": {"name": suite.name.lower(), "namespace": "bench"}, "spec": spec}


def tuning_trace(suite: Suite, traces: Path | None) -> Trace:
    """The traffic on which peers are tuned: a recording's first third, or the same evening a week before."""
    if traces is None:
        return _recording(suite, EXCERPT, 0)
    if suite.name == "B":
        return _evening(suite, traces, EVENING[0] - WEEK_SECONDS, 0)
    if not suite.source:
        return _flash_crowd(1000)
    whole = _recording(suite, traces / suite.source, 0)
    return between(whole, 0.0, whole.seconds * TUNING_SHARE)


def judged_trace(suite: Suite, traces: Path | None, seed: int) -> Trace:
    """The traffic that judges all policies: the rest of the recording, the evening itself, or the whole excerpt."""
    if traces is None:
        return _recording(suite, EXCERPT, seed)
    if suite.name == "B":
        return _evening(suite, traces, EVENING[0], seed)
    if not suite.source:
        return _flash_crowd(seed)
    whole = _recording(suite, traces / suite.source, seed)
    return between(whole, whole.seconds * TUNING_SHARE, whole.seconds + 1)


def _recording(suite: Suite, path: Path, seed: int) -> Trace:
    return rate_factor(read_file(path), suite.rate, seed)


def _flash_crowd(seed: int) -> Trace:
    begin, end = CROWD
    shape = steps((0, 8.0), (begin, 16.0), (begin + 30, 24.0), (end, 8.0))
    return synthetic("flash crowd", shape, 4800, seed, lengths=(1155, 211), spread=0.8)


def _evening(suite: Suite, traces: Path, begin: float, seed: int) -> Trace:
    clients, digest = clients_of(traces / "servegen")
    span = EVENING[1] - EVENING[0]
    trace = servegen(clients, "ServeGen m-small", begin, begin + span, share=suite.rate, seed=seed, digest=digest)
    return with_lengths_of(trace, read_file(traces / CONVERSATION), seed)


@cache
def clients_of(folder: Path) -> tuple[tuple[Client, ...], str]:
    """The clients' models and their digest; cached because reading them takes longer than drawing an evening."""
    rates, lengths = folder / "servegen-m-small-trace.tar.gz", folder / "servegen-m-small-dataset.tar.gz"
    return read_clients(rates, lengths), digest_of(rates, lengths)
