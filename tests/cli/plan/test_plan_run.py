"""`forebay plan` from the command line: files in, exit code and JSON out."""

import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from forebay.cli.service_reading import ServiceReading
from tests.capacity.specs import H100, LLAMA_2_7B, LLAMA_8B, LLAMA_70B, a_spec, traffic
from tests.cli.plan.plan_runs import AGENTS, CHAT, NEW, SLOW, a_manifest, only, plan, planned

ROOT = Path(__file__).parents[3]
CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
}


class TestJson:
    def test_reference_totals(self):
        totals = planned(CHAT, AGENTS)["totals"]
        assert totals["tokensPerMinute"] == 940_741
        assert totals["tokensPerMinuteWithHeadroom"] == 1_411_111
        assert totals["tokensPerMinuteRounded"] == 1_500_000
        assert totals["gpus"] == sum(service["gpus"]["count"] for service in planned(CHAT, AGENTS)["services"])

    def test_reference_7b(self):
        found = only(a_manifest("chat", LLAMA_2_7B))
        assert round(found["workSecondsPerRequest"] * 1000, 2) == 36.45
        assert round(found["usableFraction"], 3) == 0.731
        assert found["tokensPerMinutePerReplica"] == 842_593
        assert (found["bound"], found["basis"]) == ("ITL", "profile")
        assert found["replicas"] == {"active": 5, "warm": 0, "total": 5, "exact": pytest.approx(4.9846, abs=1e-4)}
        assert found["gpus"] == {"product": H100, "count": 5}
        napkin = found["napkin"]
        assert round(napkin["stepSeconds"] * 1000, 3) == 4.179
        assert (round(napkin["tokensPerSecond"]), round(napkin["requestsPerSecond"], 1)) == (11_964, 59.8)
        assert (napkin["active"], napkin["warm"]) == (2, 1)
        assert napkin["scaling"] == {
            "queueDepth": 20,
            "scaleUpCooldownSeconds": 90,
            "scaleDownCooldownSeconds": 300,
            "minReplicas": 2,
            "maxReplicas": 8,
        }

    def test_reference_8b_memory(self):
        found = only(a_manifest("chat", LLAMA_8B))
        assert found["weightsBytes"] == 16_060_522_496
        assert (found["kvBytesPerToken"], found["kvBytesPerTokenPerRank"]) == (131_072, 131_072)
        assert found["kvTokensPerReplica"] == 441_520
        assert found["tokensPerMinutePerReplica"] == 1_968_502

    def test_reference_70b_on_four(self):
        found = only(a_manifest("chat", LLAMA_70B))
        assert found["parallelSizes"] == {"tensor": 4, "pipeline": 1, "data": 1}
        assert (found["kvBytesPerToken"], found["kvBytesPerTokenPerRank"]) == (327_680, 81_920)
        assert found["kvTokensPerReplica"] == 471_856

    def test_every_field_of_the_contract_is_there(self):
        found = only(CHAT, flags=("--regions", "a=1,b=1"))
        assert set(found) >= {
            "namespace",
            "name",
            "weightsBytes",
            "kvBytesPerToken",
            "kvBytesPerTokenPerRank",
            "kvTokensPerReplica",
            "maxConcurrentSequences",
            "averageRequestsPerSecond",
            "peakRequestsPerSecond",
            "tokensPerMinute",
            "tokensPerMinuteWithHeadroom",
            "tokensPerMinutePerReplica",
            "workSecondsPerRequest",
            "usableFraction",
            "bound",
            "replicas",
            "gpus",
            "latency",
            "concurrentStreams",
            "cost",
            "baseAndSpill",
            "regions",
            "basis",
            "assumptions",
            "napkin",
            "problems",
        }
        assert set(found["latency"]) == {"timeToFirstToken", "interTokenLatency", "endToEnd"}
        assert (found["namespace"], found["name"]) == ("team-a", "chat")
        assert round(found["peakRequestsPerSecond"] * 60 * 860) == found["tokensPerMinute"]
        assert [region["name"] for region in found["regions"]] == ["a", "b"]

    def test_what_cannot_be_computed_is_null_and_has_its_fields_all_the_same(self):
        unknown, known = only(NEW, exit_code=2), only(CHAT)
        assert set(unknown) == set(known)
        assert (unknown["weightsBytes"], unknown["replicas"], unknown["latency"], unknown["bound"]) == (None,) * 4
        assert unknown["tokensPerMinute"] == 4_200_000

    def test_a_service_without_traffic(self):
        found = only(a_manifest("chat", traffic=None))
        assert (found["kvTokensPerReplica"], found["replicas"], found["tokensPerMinute"]) == (441_520, None, None)


class TestExitCodes:
    def test_0_when_everything_fits(self):
        assert planned(CHAT)["services"][0]["problems"] == []

    def test_1_when_something_does_not_and_why(self):
        [problem] = only(SLOW, exit_code=1)["problems"]
        assert (problem["field"], problem["value"]) == ("spec.slo.interTokenLatency.mean", "40ms")
        assert problem["reason"].startswith("cannot be kept")
        assert "75.35 ms on NVIDIA-L4" in problem["reason"]
        assert "150.7 ms" in problem["options"][0]

    def test_2_when_a_manifest_says_too_little(self):
        [problem] = only(NEW, exit_code=2)["problems"]
        assert (problem["field"], problem["value"]) == ("spec.model.source", "hf://someone/new")
        assert "set spec.model.architecture with parameters, layers" in problem["options"][0]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            pytest.param("a: [", "<stdin>: document 1: not YAML: while parsing", id="no YAML"),
            pytest.param("a: 1\n---\nb: [", "<stdin>: document 2: not YAML: while parsing", id="no YAML later on"),
            pytest.param("kind: Secret", "-: it contains no InferenceService of forebay.dev", id="nothing to plan"),
            pytest.param("", "-: it contains no InferenceService of forebay.dev", id="nothing at all"),
            pytest.param(
                yaml.safe_dump(CHAT | {"spec": CHAT["spec"] | {"scalling": {}}}),
                "<stdin>: document 1: spec.scalling: unknown field; did you mean scaling?",
                id="a field that is not one",
            ),
            pytest.param(
                yaml.safe_dump(CHAT | {"kind": "InferenceServices"}),
                '<stdin>: document 1: kind: "InferenceServices" cannot be planned',
                id="a kind that is not one",
            ),
            pytest.param(
                yaml.safe_dump(CHAT | {"metadata": {"name": "chat", "namespace": 5}}),
                "<stdin>: document 1: metadata.namespace: 5 is not text",
                id="a namespace that is a number",
            ),
            pytest.param(
                yaml.safe_dump(CHAT | {"spec": {"model": {"source": "ftp://a"}}}),
                '<stdin>: document 1: spec.model.source: "ftp://a" is not a model source',
                id="a value that breaks a rule",
            ),
        ],
    )
    def test_2_names_file_document_field_and_reason(self, text, message):
        result = plan("-f", "-", text=text)
        assert result.exit_code == 2
        assert message in result.stderr

    def test_2_still_plans_the_rest(self):
        found = planned(CHAT, CHAT | {"kind": "Chat"}, exit_code=2)
        assert [service["name"] for service in found["services"]] == ["chat"]
        assert found["badInput"] == [
            {
                "file": "<stdin>",
                "document": 2,
                "field": "kind",
                "reason": '"Chat" cannot be planned; use InferenceService, PerformanceProfile, WarmPool or TenantQuota',
            }
        ]

    def test_2_wins_over_1(self):
        planned(SLOW, NEW, exit_code=2)

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (("--regions", "north"), '--regions: "north" is not name=share'),
            (("--prices", "/nowhere"), "--prices: cannot be read: No such file or directory"),
            (("--trace", "/nowhere"), "--trace: cannot be read"),
            (("--config", "/nowhere"), "--config: cannot be read"),
            (("--against", "/nowhere"), "--against: /nowhere: cannot be read"),
        ],
    )
    def test_2_for_flags_that_cannot_be_read(self, flags, message):
        result = plan("-f", "-", *flags, text=yaml.safe_dump(CHAT))
        assert result.exit_code == 2
        assert message in result.stderr


class TestInput:
    def test_several_files_and_folders(self, write, tmp_path):
        write("base/chat.yaml", CHAT)
        write("base/deeper/agents.yml", AGENTS)
        write("base/values.yaml", {"replicas": 3})
        write("base/notes.txt", "not a manifest")
        other = write("other.json", json.dumps(a_manifest("other")))
        result = plan("-f", str(tmp_path / "base"), "-f", other, "-o", "json")
        assert result.exit_code == 0
        names = [service["name"] for service in json.loads(result.stdout)["services"]]
        assert names == ["chat", "agents", "other"]

    def test_the_output_of_kustomize(self):
        found = planned({"apiVersion": "v1", "kind": "ConfigMap"}, CHAT, None, AGENTS)
        assert [service["name"] for service in found["services"]] == ["chat", "agents"]

    def test_a_list_as_kubectl_prints_it(self):
        found = planned({"apiVersion": "v1", "kind": "List", "items": [CHAT, AGENTS]})
        assert [service["name"] for service in found["services"]] == ["chat", "agents"]

    def test_a_service_that_is_there_twice(self, write):
        path = write("a.yaml", CHAT)
        result = plan("-f", path, "-f", write("b.yaml", CHAT))
        assert result.exit_code == 2
        assert f'metadata.name: "team-a/chat" is also in {path}, document 1; keep one' in result.stderr

    def test_an_empty_folder(self, tmp_path):
        result = plan("-f", str(tmp_path))
        assert result.exit_code == 2
        assert "no file that ends with .yaml, .yml, .json" in result.stderr

    def test_a_file_that_is_not_text(self, tmp_path):
        (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
        result = plan("-f", str(tmp_path / "a.yaml"))
        assert result.exit_code == 2
        assert "cannot be read" in result.stderr

    def test_without_a_namespace_it_is_the_default_one(self):
        assert only(a_manifest(namespace=None))["namespace"] == "default"

    def test_a_gpu_for_services_that_name_none(self):
        found = only(a_manifest("chat", LLAMA_8B, None), flags=("--gpu", H100))
        assert found["gpus"]["product"] == H100

    def test_a_config_for_a_model_nobody_knows(self, write):
        path = write("config.json", json.dumps(CONFIG))
        found = only(NEW, flags=("--config", path))
        assert found["weightsBytes"] == 16_060_522_496
        assert (found["basis"], found["kvTokensPerReplica"]) == ("declared", 441_520)
        assert any(text.startswith("roofline estimate ±35 %") for text in found["assumptions"])

    def test_a_config_by_source(self, write):
        path = write("config.json", json.dumps(CONFIG | {"num_key_value_heads": 4}))
        found = planned(NEW, CHAT, flags=("--config", f"hf://someone/new={path}"))
        assert [service["kvBytesPerToken"] for service in found["services"]] == [65_536, 131_072]

    def test_a_config_that_cannot_be_counted(self, write):
        result = plan("-f", "-", "--config", write("c.json", '{"model_type": "mamba"}'), text=yaml.safe_dump(NEW))
        assert result.exit_code == 2
        assert "model_type: 'mamba' is not a family" in result.stderr


class TestProfiles:
    PROFILE: ClassVar[dict[str, Any]] = {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "PerformanceProfile",
        "metadata": {"name": "measured-here"},
        "spec": {
            "model": LLAMA_8B,
            "product": H100,
            "stepMilliseconds": 8,
            "promptTokenMicroseconds": 20,
            "sequenceMicroseconds": 5,
            "kvTokenNanoseconds": 50,
            "overheadMebibytes": 6144,
            "usablePercent": 80,
            "measuredWith": "guidellm, our own prompts",
        },
    }

    def test_one_among_the_manifests_is_used(self):
        found = only(self.PROFILE, CHAT)
        assert (found["basis"], found["profile"]["name"]) == ("profile", "measured-here")
        assert found["profile"]["stepSeconds"] == pytest.approx(0.008)
        assert found["usableFraction"] == pytest.approx(0.8 * (1 - 8 / 40))
        assert found["kvTokensPerReplica"] == 441_520 - 2 * 2**30 // 131_072
        assert "measured with: guidellm, our own prompts" in found["assumptions"]

    def test_one_that_is_wrong_is_named(self):
        wrong = self.PROFILE | {"spec": self.PROFILE["spec"] | {"stepMilliseconds": 0}}
        [bad] = planned(wrong, CHAT, exit_code=2)["badInput"]
        assert (bad["document"], bad["field"]) == (1, "spec.stepMilliseconds")


class TestPricesAndVariants:
    def test_cost_and_cheapest(self, write):
        prices = write("prices.yaml", {"currency": "EUR", "gpuHours": {H100: 2.5, "NVIDIA-L40S": 0.9}})
        found = planned(CHAT, flags=("--prices", prices))
        [service] = found["services"]
        assert service["cost"]["perHour"] == 2.5 * service["gpus"]["count"]
        assert found["totals"]["cost"]["currency"] == "EUR"
        assert {variant["name"] for variant in service["variants"]} == {"base", "NVIDIA-L40S"}
        assert service["cheapest"] in {"base", "NVIDIA-L40S"}


class TestTrace:
    AZURE = str(ROOT / "examples/traces/azure-2023-conv-first-15-minutes.csv")

    def test_recorded_lengths_leave_less_usable(self):
        """Azure conversations have means of 1,173 and 254 tokens; the usable share is measured on their lengths."""
        found = only(CHAT, flags=("--trace", self.AZURE))
        assert any(text.startswith("lengths are those of 4,424 recorded requests") for text in found["assumptions"])
        fixed = only(a_manifest("chat", traffic=traffic(6_000_000, 4, 1173, 254, 1.5), scaling={"maxReplicas": 4}))
        assert 0.6 * fixed["usableFraction"] < found["usableFraction"] < 0.99 * fixed["usableFraction"]
        assert round(found["workSecondsPerRequest"], 4) == 0.0382
        assert round(fixed["workSecondsPerRequest"], 4) == 0.0387

    def test_a_recording_of_one_service_is_not_the_others(self):
        found = planned(CHAT, AGENTS, flags=("--trace", f"team-a/chat={self.AZURE}"))
        recorded = [
            any("recorded requests" in text for text in service["assumptions"]) for service in found["services"]
        ]
        assert recorded == [True, False]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("time,prompt,output\n0,5,x\n", "line 2: '0,5,x' is not time, prompt and answer"),
            ("when,prompt,output\n", "line 1: no column timestamp in 'when,prompt,output'"),
            ('{"timestamp": 0}\n', "line 1: '{\"timestamp\": 0}' is not a request"),
            ("time,prompt,output\n", "no request with a prompt and an answer is in it"),
            ("", "line 1: no column timestamp"),
        ],
    )
    def test_one_that_cannot_be_read(self, write, text, message):
        result = plan("-f", "-", "--trace", write("t.csv", text), text=yaml.safe_dump(CHAT))
        assert result.exit_code == 2
        assert message in result.stderr


class TestAgainst:
    def test_what_changes_in_gpus_tokens_and_cost(self, write):
        before = write("before.yaml", yaml.safe_dump_all([CHAT, a_manifest("gone")]))
        doubled = a_manifest("chat", traffic=traffic(240_000_000, 4, 600, 260, 1.5), scaling={"maxReplicas": 90})
        prices = write("prices.yaml", {"gpuHours": {H100: 2.0}})
        found = planned(doubled, AGENTS, flags=("--against", before, "--prices", prices))["against"]
        assert [(change["name"], change["state"]) for change in found] == [
            ("agents", "added"),
            ("chat", "changed"),
            ("gone", "removed"),
        ]
        chat = found[1]
        assert chat["tokensPerMinute"] == {"before": 477_778, "after": 19_111_111}
        assert chat["gpus"]["after"] > chat["gpus"]["before"]
        assert chat["costPerHour"]["after"] == 2 * chat["gpus"]["after"]

    def test_nothing_changes_against_itself(self, write):
        result = plan("-f", "-", "--against", write("before.yaml", CHAT), text=yaml.safe_dump(CHAT))
        assert result.exit_code == 0
        assert "Nothing changes in GPUs, TPM or cost." in result.stdout

    def test_against_what_runs(self, monkeypatch):
        """Services of the cluster that are not in the manifests are left out of the comparison."""
        running = [
            ServiceReading("team-a", "chat", 1, a_spec(traffic=traffic(3_000_000, 4, 600, 260, 1.5)), None),
            ServiceReading("team-z", "other", 1, a_spec(), None),
            ServiceReading("team-a", "agents", 1, None, None),
        ]

        @asynccontextmanager
        async def connected(kubeconfig, context):
            yield type("Reader", (), {"api": None})

        async def listed(api, namespace):
            return tuple(running)

        monkeypatch.setattr("forebay.cli.cluster_connection.cluster_reader", connected)
        monkeypatch.setattr("forebay.cli.service_reading.read_services", listed)
        found = planned(CHAT, AGENTS, flags=("--against", "live"))["against"]
        assert [(change["name"], change["state"]) for change in found] == [("agents", "added"), ("chat", "changed")]
        assert found[1]["tokensPerMinute"] == {"before": 238_889, "after": 477_778}
