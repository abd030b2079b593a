"""`forebay simulate`: from a manifest and traffic to a report that names its inputs."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from forebay.cli.main import app

MANIFEST = """
apiVersion: forebay.dev/v1alpha1
kind: InferenceService
metadata: {name: chat, namespace: ml}
spec:
  model: {source: "hf://meta-llama/Llama-3.1-8B-Instruct"}
  gpu: {product: NVIDIA-H100-80GB-HBM3}
  scaling: {minReplicas: 1, maxReplicas: 4}
"""
UNKNOWN = MANIFEST.replace("meta-llama/Llama-3.1-8B-Instruct", "nobody/knows")


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "chat.yaml"
    path.write_text(MANIFEST)
    return path


def run(*arguments: str | Path):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def played(manifest: Path, *arguments: str) -> Any:
    result = run("-f", manifest, "--shape", "steady:8", "--hours", "0.05", "-o", "json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_report_names_its_inputs_and_every_policys_figures(manifest):
    report = played(manifest, "--peers", "oracle,knative", "--seed", "3")
    inputs = report["inputs"]
    assert (inputs["trace"], inputs["seed"], inputs["seconds"]) == ("steady:8", 3, 180.0)
    assert inputs["believed"] != inputs["true"]
    assert [policy["name"] for policy in report["policies"]] == ["Forebay", "oracle", "Knative KPA"]
    for policy in report["policies"]:
        assert policy["offered"] == inputs["requests"]
        assert policy["shed"] == policy["failed"] == 0
        assert 0.99 < policy["attainment"] <= 1
        assert policy["gpuHours"] == pytest.approx(240 / 3600, rel=0.05)
        assert policy["oracleRatio"] == pytest.approx(1.0, rel=0.05)
        assert policy["timeToFirstToken"]["p50"] < policy["timeToFirstToken"]["p99"] < 0.5
        assert policy["tenants"] == [{"name": "", "asked": inputs["requests"], "served": policy["offered"]}]


def test_as_a_fluid_with_the_same_bytes_for_the_same_seed(manifest):
    arguments = ("-f", manifest, "--shape", "diurnal:8,1.5", "--days", "0.01", "--model", "fluid", "-o", "json")
    first, again = run(*arguments), run(*arguments)
    assert first.exit_code == 0, first.output
    assert first.stdout == again.stdout
    report = json.loads(first.stdout)
    policy = report["policies"][0]
    assert report["model"] == "fluid"
    assert policy["offered"] == report["inputs"]["requests"] > 1000
    assert policy["attainment"] > 0.9
    assert set(policy["attainmentByClass"]) == {"interactive"}
    assert policy["tenants"] == []
    assert played(manifest)["model"] == "discrete"


def test_windows_of_the_manifest_are_judged_by_who_serves_at_their_start(manifest):
    """The simulation begins at 15:06 UTC; two windows open within the hour that is played, one a day later."""
    manifest.write_text(
        MANIFEST
        + """
  schedules:
    - {name: tea, start: "20 15 * * *", timeZone: UTC, duration: 10m, floor: {replicas: 2}}
    - {name: call, start: "40 15 * * *", timeZone: UTC, duration: 10m, floor: {replicas: 3}}
    - {name: lunch, start: "0 12 * * *", timeZone: UTC, duration: 10m, floor: {replicas: 4}}
"""
    )
    result = run("-f", manifest, "--shape", "steady:8", "--hours", "0.9", "--model", "fluid", "-o", "json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["policies"][0]["schedules"] == {"total": 2, "metByStart": 2}
    assert report["policies"][0]["mostReplicas"] == 3


TRAFFIC = """
  traffic: {requestsPerMonth: 2000000, promptTokens: 500, outputTokens: 200}"""
RATE_SCHEDULE = """
  schedules:
    - {name: tea, start: "20 15 * * *", timeZone: UTC, duration: 10m, floor: {requestsPerSecond: 60}}
"""


def test_a_rate_is_judged_by_the_replicas_that_the_operator_makes_of_it(manifest):
    manifest.write_text(MANIFEST + TRAFFIC + RATE_SCHEDULE)
    result = run("-f", manifest, "--shape", "steady:2", "--hours", "0.5", "--model", "fluid", "-o", "json")
    assert result.exit_code == 0, result.output
    policy = json.loads(result.stdout)["policies"][0]
    assert policy["schedules"] == {"total": 1, "metByStart": 1}
    floor = next(decided for decided in policy["decisions"] if decided["rule"] == "schedule_floor")
    assert policy["mostReplicas"] == floor["desired"] > 1


@pytest.mark.parametrize("rate", ["requestsPerSecond: 60", "tokensPerMinute: 2520000"])
def test_a_rate_that_nobody_can_turn_into_replicas_is_not_called_unmet(manifest, rate):
    manifest.write_text(MANIFEST + RATE_SCHEDULE.replace("requestsPerSecond: 60", rate))
    result = run("-f", manifest, "--shape", "steady:2", "--hours", "0.5", "--model", "fluid", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["policies"][0]["schedules"] == {"total": 0, "metByStart": 0}
    assert "spec.schedules[tea]" in result.stderr
    assert "spec.traffic" in result.stderr


PROFILE = """
---
apiVersion: forebay.dev/v1alpha1
kind: PerformanceProfile
metadata: {name: measured}
spec:
  model: "hf://meta-llama/Llama-3.1-8B-Instruct"
  product: NVIDIA-H100-80GB-HBM3
  stepMilliseconds: 11.1
  promptTokenMicroseconds: 20
  sequenceMicroseconds: 30
  kvTokenNanoseconds: 50
"""
WARM_POOL = """
---
apiVersion: forebay.dev/v1alpha1
kind: WarmPool
metadata: {name: spare}
spec: {gpu: {product: NVIDIA-H100-80GB-HBM3}, placeholders: 2}
"""


def test_a_warm_pool_beside_the_service_is_held_and_said_to_cost_apart(manifest):
    alone = played(manifest)["policies"][0]
    manifest.write_text(MANIFEST + WARM_POOL)
    result = run("-f", manifest, "--shape", "steady:8", "--hours", "0.05", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["policies"][0]["gpuHours"] == alone["gpuHours"]
    assert "WarmPool spare" in result.stderr
    assert "not in the GPU-hours" in result.stderr


def test_a_profile_beside_the_service_is_what_is_planned_with(manifest):
    before = played(manifest)["inputs"]["believed"]
    manifest.write_text(MANIFEST + PROFILE)
    assert before["step_seconds"] != played(manifest)["inputs"]["believed"]["step_seconds"] == pytest.approx(0.0111)


def test_hours_and_days_exclude_each_other(manifest):
    result = run("-f", manifest, "--shape", "steady:8", "--hours", "1", "--days", "1")
    assert result.exit_code == 2
    assert "--hours and --days" in result.output


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_traffic(manifest):
    arguments = ("-f", manifest, "--shape", "steady:8", "--hours", "0.02", "-o", "json")
    first, again = run(*arguments), run(*arguments)
    assert first.stdout == again.stdout
    assert run(*arguments, "--seed", "2").stdout != first.stdout


def test_a_recorded_trace_is_named_with_its_digest_and_what_was_done_to_it(manifest, tmp_path):
    trace = tmp_path / "requests.csv"
    rows = "\n".join(f"{second},400,50,{'a' if second % 3 else 'b'}" for second in range(120))
    trace.write_text(f"time,prompt_tokens,output_tokens,tenant\n{rows}\n")
    result = run("-f", manifest, "--trace", f"chat={trace}", "--rate-factor", "2", "-o", "json")
    assert result.exit_code == 0, result.output
    inputs = json.loads(result.stdout)["inputs"]
    assert len(inputs["sha256"]) == 64
    assert inputs["requests"] > 200
    assert "rate × 2" in inputs["method"][0]
    assert {t["name"] for t in json.loads(result.stdout)["policies"][0]["tenants"]} == {"a", "b"}


def test_people_get_a_table_a_picture_and_a_page(manifest, tmp_path):
    pytest.importorskip("matplotlib")
    chart, page = tmp_path / "run.png", tmp_path / "run.html"
    shape = ("--shape", "step:5,60@60", "--hours", "0.06")
    result = run("-f", manifest, *shape, "--chart", chart, "--html", page)
    assert result.exit_code == 0, result.output
    assert "ml/chat" in result.stdout
    assert "IN TIME" in result.stdout
    assert "Decisions" in result.stdout
    assert chart.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert "data:image/png;base64," in text
    assert "http" not in text.replace("http-equiv", "").split("<script")[0]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (MANIFEST, (), "ml/chat has no traffic; give --trace FILE or --shape steady:20"),
        (MANIFEST, ("--shape", "wavy:3"), "shape: 'wavy:3' is not known"),
        (MANIFEST, ("--trace", "/nowhere.csv"), "/nowhere.csv"),
        (MANIFEST, ("--shape", "steady:0"), "steady:0 has no request to play; give a rate above 0"),
        (MANIFEST, ("--shape", "steady:0", "--model", "fluid"), "steady:0 has no request to play"),
        (
            MANIFEST,
            ("--shape", "steady:5", "--peers", "nobody"),
            "--peers: 'nobody' is unknown; use all, or names",
        ),
        (UNKNOWN, ("--shape", "steady:5"), "its model or GPU is not known"),
        ("{}", ("--shape", "steady:5"), "no InferenceService of forebay.dev"),
    ],
)
def test_unusable_input_is_refused_with_a_sentence(tmp_path, text, arguments, message):
    path = tmp_path / "given.yaml"
    path.write_text(text)
    result = run("-f", path, *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
