"""The metrics that `prometheus_client` exports about a single process: GC, Python, memory, CPU and open files."""

from __future__ import annotations

import gc
import resource
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from forebay.simulation.vllm_server.exposition import VALUE_SLOT, PageTemplate, sample_value


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of a process at one moment."""

    virtual_bytes: int
    resident_bytes: int
    cpu_seconds: float
    open_files: int
    max_files: int


def own_usage() -> Usage:
    """Resource usage of this process now."""
    virtual, resident, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    page_bytes = resource.getpagesize()
    times = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(
        virtual_bytes=int(virtual) * page_bytes,
        resident_bytes=int(resident) * page_bytes,
        cpu_seconds=times.ru_utime + times.ru_stime,
        open_files=sum(1 for _ in Path("/proc/self/fd").iterdir()),
        max_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def process_text(started: float, usage: Usage) -> str:
    """The metric families of a process that started at `started` (Unix seconds)."""
    return _process_template(usage) % sample_value(started)


@lru_cache(maxsize=1)
def _process_template(usage: Usage) -> str:
    """The page with a slot for the start; simulated pods share one usage for seconds."""
    page = PageTemplate()
    generations = gc.get_stats()
    for name, about, key in (
        ("python_gc_objects_collected_total", "Objects collected during gc", "collected"),
        ("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC", "uncollectable"),
        ("python_gc_collections_total", "Number of times this generation was collected", "collections"),
    ):
        page.family(name, "counter", about)
        for generation, stats in enumerate(generations):
            page.sample(name, {"generation": str(generation)}, sample_value(stats[key]))
    version = sys.version_info
    page.family("python_info", "gauge", "Python platform information")
    labels = {
        "implementation": "CPython",
        "major": str(version.major),
        "minor": str(version.minor),
        "patchlevel": str(version.micro),
        "version": f"{version.major}.{version.minor}.{version.micro}",
    }
    page.sample("python_info", labels, "1.0")
    for name, kind, about, value in (
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", usage.virtual_bytes),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", usage.resident_bytes),
        ("process_start_time_seconds", "gauge", "Start time of the process, Unix time.", None),
        ("process_cpu_seconds_total", "counter", "CPU time spent.", usage.cpu_seconds),
        ("process_open_fds", "gauge", "Open file descriptors.", usage.open_files),
        ("process_max_fds", "gauge", "Most file descriptors.", usage.max_files),
    ):
        page.family(name, kind, about)
        page.sample(name, {}, VALUE_SLOT if value is None else sample_value(value))
    return page.template()
