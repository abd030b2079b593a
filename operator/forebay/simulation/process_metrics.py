"""What `prometheus_client` says about a single process: garbage collection, Python, memory, CPU and files."""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path

from forebay.simulation.exposition import Page, number


def process_text(started: float) -> str:
    """The families of this process, which began at `started` (Unix time)."""
    page = Page()
    generations = gc.get_stats()
    for name, about, key in (
        ("python_gc_objects_collected_total", "Objects collected during gc", "collected"),
        ("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC", "uncollectable"),
        ("python_gc_collections_total", "Number of times this generation was collected", "collections"),
    ):
        page.family(name, "counter", about)
        for generation, seen in enumerate(generations):
            page.sample(name, {"generation": str(generation)}, number(seen[key]))
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
    virtual, resident = _memory_bytes()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    for name, kind, about, value in (
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", virtual),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident),
        ("process_start_time_seconds", "gauge", "Start time of the process, Unix time.", started),
        ("process_cpu_seconds_total", "counter", "CPU time spent.", usage.ru_utime + usage.ru_stime),
        ("process_open_fds", "gauge", "Open file descriptors.", sum(1 for _ in Path("/proc/self/fd").iterdir())),
        ("process_max_fds", "gauge", "Most file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    ):
        page.family(name, kind, about)
        page.sample(name, {}, number(value))
    return page.template()


def _memory_bytes() -> tuple[int, int]:
    """Virtual and resident memory of this process."""
    virtual, resident, *_ = Path("/proc/self/statm").read_text(encoding="ascii").split()
    page_bytes = resource.getpagesize()
    return int(virtual) * page_bytes, int(resident) * page_bytes
