"""The napkin estimate, and how the plan differs from it."""

import pytest

from forebay.capacity.plan.napkin import NapkinScaling, differences, napkin, napkin_of
from forebay.capacity.plan.plan_input import read_plan_input
from forebay.capacity.plan.sizing import size
from tests.capacity.specs import H100, LLAMA_2_7B, a_spec, traffic


def test_reference_example():
    """Nominal 7e9 at FP16 over 3.35 TB/s, 50 sequences, 200 tokens, 100 requests a second."""
    step, tokens, requests, active = napkin(7_000_000_000, 3.35e12, 50, 200, 100)
    assert round(step * 1000, 3) == 4.179
    assert round(tokens) == 11_964
    assert round(requests, 1) == 59.8
    assert active == 2


def test_reference_example_from_a_manifest():
    spec = a_spec(LLAMA_2_7B)
    estimate = napkin_of(spec, read_plan_input(spec))
    assert estimate is not None
    assert round(estimate.step_seconds * 1000, 3) == 4.179
    assert round(estimate.tokens_per_second) == 11_964
    assert round(estimate.requests_per_second, 1) == 59.8
    assert (estimate.active, estimate.warm) == (2, 1)
    assert estimate.scaling == NapkinScaling(20, 90, 300, 2, 8)


def test_second_example_that_differs_in_every_figure():
    """64e9 bytes over 4.8 TB/s are 13.333 ms; 64 / 13.333 ms = 4,800; / 300 = 16; 45 / 16 = 2.8."""
    spec = a_spec(
        "hf://Qwen/Qwen3-32B",
        "NVIDIA-H200",
        engine={"maxNumSeqs": 64},
        traffic=traffic(45 * 864_000, 3, 700, 300),
        warmPool={"replicas": 2},
        scaling={
            "minReplicas": 3,
            "maxReplicas": 9,
            "targets": {"queueDepth": 12},
            "scaleUpCooldown": "60s",
            "scaleDownCooldown": "10m",
        },
    )
    estimate = napkin_of(spec, read_plan_input(spec))
    assert estimate is not None
    assert round(estimate.step_seconds * 1000, 3) == 13.333
    assert round(estimate.tokens_per_second) == 4800
    assert round(estimate.requests_per_second, 2) == 16.0
    assert (estimate.active, estimate.warm) == (3, 2)
    assert estimate.scaling == NapkinScaling(12, 60, 600, 3, 9)


def test_the_estimate_ignores_headroom():
    spec = a_spec(LLAMA_2_7B, traffic=traffic(headroom=3))
    estimate = napkin_of(spec, read_plan_input(spec))
    assert estimate is not None
    assert estimate.active == 2


def test_gpus_of_a_replica_add_up():
    spec = a_spec(LLAMA_2_7B)
    one, four = (napkin_of(spec, read_plan_input(spec), gpus) for gpus in (1, 4))
    assert one is not None
    assert four is not None
    assert four.step_seconds == pytest.approx(one.step_seconds / 4)


def test_without_traffic_there_is_no_estimate():
    spec = a_spec(traffic=None)
    assert napkin_of(spec, read_plan_input(spec)) is None


def test_differences_from_the_plan_are_explained_with_numbers():
    spec = a_spec(LLAMA_2_7B, H100, traffic=traffic(headroom=1.5))
    plan_input = read_plan_input(spec)
    estimate = napkin_of(spec, plan_input)
    assert estimate is not None
    reasons = list(differences(estimate, size(plan_input)))
    assert [reason.partition(":")[0] for reason in reasons] == [
        "one replica",
        "bandwidth",
        "prefill",
        "KV reads",
        "headroom",
    ]
    assert all(number in reasons[0] for number in ("59.8 requests/s", "20.1", "(34%)"))
    assert all(number in reasons[1] for number in ("4.18 ms", "100 %", "7.50 ms"))
    assert all(number in reasons[2] for number in ("500 tokens", "10.2 ms", "21%"))
    assert all(number in reasons[3] for number in ("126 µs", "600 tokens"))
