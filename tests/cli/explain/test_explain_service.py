import re
from typing import Any

from forebay.api.inference_service import InferenceServiceSpec, InferenceServiceStatus
from forebay.cli.explain.explain_service import explanation
from forebay.cli.service_reading import ServiceReading
from forebay.cluster.read.projections import unix_seconds

NOW = unix_seconds("2026-03-01T12:00:00Z") or 0.0

SPEC = {
    "model": {"source": "hf://meta-llama/Llama-3.1-8B-Instruct"},
    "scaling": {"minReplicas": 1, "maxReplicas": 8},
}
STATUS: dict[str, Any] = {
    "observedGeneration": 4,
    "replicas": {"desired": 4, "ready": 3, "loading": 1, "draining": 0, "warm": 1},
    "load": {"queue": 95, "kvPercent": 82},
    "decision": {
        "rule": "queue_depth",
        "because": "95 requests wait on 3 replicas, target 20 each",
        "desired": 4,
        "inputs": {"waiting": "95", "replicas": "3", "target": "20"},
    },
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Serving",
            "message": "3 of 4 replicas serve.",
            "lastTransitionTime": "2026-03-01T11:00:00Z",
            "observedGeneration": 4,
        }
    ],
}


def a_reading(generation: int = 4, spec: dict[str, Any] | None = SPEC, **status: Any) -> ServiceReading:
    return ServiceReading(
        "team-a",
        "chat",
        generation,
        InferenceServiceSpec.model_validate(spec) if spec else None,
        InferenceServiceStatus.model_validate(STATUS | status),
    )


def test_a_decision_is_explained_with_its_rule_its_reason_and_its_numbers():
    assert list(explanation(a_reading(), NOW)) == [
        "team-a/chat  hf://meta-llama/Llama-3.1-8B-Instruct",
        "4 replicas wanted, 3 ready, 1 loading; bounds 1 to 8, mode Auto; 1 of them warm, beyond what the load needs.",
        "95 requests waiting, KV cache 82 % full.",
        "",
        "Why 4: queue_depth",
        "  95 requests wait on 3 replicas, target 20 each.",
        "  replicas  3",
        "  target    20",
        "  waiting   95",
        "",
        "Conditions",
        "  Ready          True     Serving (for 60 min)",
        "    3 of 4 replicas serve.",
    ]


def test_unknown_load_is_said_and_not_shown_as_zero():
    lines = list(explanation(a_reading(load={}), NOW))
    assert any(line.startswith("Load unknown") and "nothing is scaled down" in line for line in lines)


def test_at_zero_it_says_since_when_and_what_wakes_it():
    spec = {**SPEC, "scaling": {"minReplicas": 0, "maxReplicas": 8, "scaleToZeroAfter": "15m"}}
    zero = {"since": "2026-03-01T09:00:00Z"}
    replicas = {"desired": 0, "ready": 0}
    lines = list(explanation(a_reading(spec=spec, load={}, replicas=replicas, scaledToZero=zero), NOW))
    assert lines[1] == "0 replicas wanted, 0 ready; bounds 0 to 8, mode Auto."
    assert re.match(r"At zero since 2026-03-01T09:00:00Z \(3 h ago\): .*scaleToZeroAfter", lines[2])
    assert "`forebay wake chat -n team-a`" in lines[3]
    assert "minReplicas" in lines[3]


def test_variants_are_listed_in_order_with_their_shortage_and_their_capacity():
    why = "chat-0 finds no node since 2026-03-01T11:00:00Z: no GPU. It is tried again at 2026-03-01T12:10:00Z."
    variants = [
        {"name": "base", "ready": 1, "loading": 1, "state": "Short", "message": why},
        {"name": "small", "ready": 2, "draining": 1, "carriesPercent": 55, "state": "Next"},
        {"name": "old", "ready": 0, "state": "Standby"},
    ]
    lines = list(explanation(a_reading(variants=variants), NOW))
    assert lines[2:8] == [
        "Variants, in order of preference (base is the service's own engine and GPU):",
        "  base: 1 ready, 1 loading; unavailable: chat-0 finds no node since 2026-03-01T11:00:00Z: no GPU. It",
        "  is tried again at 2026-03-01T12:10:00Z.",
        "  small: 2 ready, 1 draining, each carries 55 % of a base replica; used for the next replica",
        "  old: 0 ready; used when the variants before it are unavailable",
        "95 requests waiting, KV cache 82 % full.",
    ]


def test_a_spec_that_the_operator_has_not_read_yet_is_named_first():
    assert re.search(r"\(generation 5\).*generation 4\.", list(explanation(a_reading(generation=5), NOW))[1])


def test_a_service_without_an_operator_says_so():
    reading = ServiceReading("team-a", "chat", 1, None, None)
    title, *lines = explanation(reading, NOW)
    assert title == "team-a/chat"
    assert [line.partition(".")[0] for line in lines] == ["No operator has written a status yet"]


def test_a_spec_that_does_not_parse_still_has_its_conditions_shown():
    lines = list(explanation(a_reading(spec=None, decision=None), NOW))
    assert "Nothing has been decided yet; the conditions say why." in lines
    assert "  Ready          True     Serving (for 60 min)" in lines


def test_what_was_learned_is_shown_with_what_it_rests_on():
    learned = {
        "version": 1,
        "leadTime": {
            "placeholderNode": {"p50Seconds": 120, "p95Seconds": 120},
            "readyNode": {"p50Seconds": 62, "p95Seconds": 70, "seconds": [60, 62, 70]},
            "newNode": {"p50Seconds": 420, "p95Seconds": 420, "seconds": [310]},
            "countedUntil": "2026-03-01T11:00:00Z",
        },
        "growth": {"p95Percent": 18, "days": [{"date": "2026-02-28", "steps": [90, 3]}]},
        "lengths": {"promptTokens": 500, "outputTokens": 200, "computedPercent": 60, "requests": 900},
    }
    lines = list(explanation(a_reading(learned=learned), NOW))
    shown = lines[lines.index("Learned") + 1 : lines.index("Conditions")]
    patterns = (
        r"  start on a placeholder's node: none .*\b120 s assumed",
        r"  start on a ready node: 95 of 100 .*\b70 s, half .*\b62 s \(3 starts\)",
        r"  start on a new node: 1 start .*\b420 s assumed",
        r"  growth: .*\b18 % .*95 of 100 cases \(93 comparisons .*1 day\)",
        r"  requests: 500 prompt tokens \(60 % .*\) and 200 answer tokens .*",
        "",
    )
    assert len(shown) == len(patterns)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(patterns, shown, strict=True)), shown
    assert "Learned" not in list(explanation(a_reading(learned={"version": 9}), NOW))


def test_schedules_are_shown_with_both_times_of_their_last_end():
    morning = {
        "name": "morning",
        "state": "AtRisk",
        "message": "6 replicas from Mon 2026-03-02 08:00 Europe/Berlin (UTC+01:00); 2 serve; chat-0 finds no node.",
        "floorReleasedAt": "2026-03-01T11:00:00Z",
        "drainsUntil": "2026-03-01T11:25:00Z",
    }
    lines = list(explanation(a_reading(schedules=[morning]), NOW))
    shown = lines[lines.index("Schedules") :][:5]
    assert shown[:3] == ["Schedules", "  morning        AtRisk", f"    {morning['message']}"]
    assert re.search(r" ended at 2026-03-01T11:00:00Z; .* 2026-03-01T11:25:00Z ", " ".join(shown[3:]))
