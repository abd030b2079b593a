"""Compares the metrics reader with Prometheus' own parser on real vLLM responses: `python -m bench.telemetry`.

Both sides are timed in turn in one run, so the ratio holds on a busy machine, too; each figure is the best of its
rounds. The reader picks the series that the planner needs; the sample column adds the conversion to an `EngineSample`.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for, wire_names
from forebay.telemetry.text_format import TextReader

SAMPLES = Path(__file__).parents[1] / "tests" / "samples"
VERSION = "0.32.0"
"""The version of vLLM that gave the samples."""


def mean_seconds(work: Callable[[], object], repetitions: int) -> float:
    """Wall time of one repetition."""
    started = time.perf_counter()
    for _ in range(repetitions):
        work()
    return (time.perf_counter() - started) / repetitions


def measure(body: bytes, rounds: int) -> tuple[float, float, float]:
    """Seconds per response: reader, reader with sample, Prometheus' parser."""
    reader, catalogue = TextReader(wire_names()), catalogue_for(VERSION)
    reads, samples, references = [], [], []
    for _ in range(rounds):
        reads.append(mean_seconds(lambda: reader.read(body), 50))
        samples.append(mean_seconds(lambda: sample_of(body, catalogue, 0.0), 50))
        references.append(mean_seconds(lambda: list(text_string_to_metric_families(body.decode())), 3))
    return min(reads), min(samples), min(references)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    rounds = arguments.parse_args().rounds
    ratios = f"{'reader is':>10} {'+ sample':>9}"
    print(f"{'response':28} {'KB':>5} {'reader':>10} {'+ sample':>10} {'prometheus':>10} {ratios}")
    for path in sorted(SAMPLES.glob("vllm-metrics-*.txt")):
        body = path.read_bytes()
        read, sample, reference = measure(body, rounds)
        times = " ".join(f"{seconds * 1e3:7.2f} ms" for seconds in (read, sample, reference))
        print(f"{path.stem:28} {len(body) / 1000:5.0f} {times} {reference / read:9.1f}× {reference / sample:8.1f}×")


if __name__ == "__main__":
    main()
