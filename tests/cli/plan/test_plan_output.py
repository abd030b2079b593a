"""The formats of `forebay plan` for people: a table with its arithmetic, a pull request comment, a chart."""

import yaml

from forebay.api.schema.manifest import read_service
from forebay.capacity.plan.service_plan import plan_service
from forebay.cli.plan.plan_table import report
from tests.capacity.specs import LLAMA_2_7B
from tests.cli.plan.plan_runs import AGENTS, CHAT, NEW, SLOW, a_manifest, plan


class TestTable:
    def test_one_line_each_and_the_sum(self):
        result = plan("-f", "-", "--no-details", text=yaml.safe_dump_all([CHAT, AGENTS]))
        lines = result.stdout.splitlines()
        assert lines[0].startswith("SERVICE        GPU           REPLICAS  GPUS      TPM  TPM + HEADROOM")
        assert lines[1].startswith("team-a/chat    H100-SXM TP1       1+0     1  477,778         716,667")
        assert lines[4] == (
            "Together 940,741 TPM, 1,411,111 with headroom: ask for 1,500,000 TPM. "
            f"{sum(int(line.split()[4]) for line in lines[1:3])} GPUs."
        )

    def test_without_traffic_there_is_nothing_to_ask_for(self):
        text = plan("-f", "-", text=yaml.safe_dump(a_manifest("chat", traffic=None))).stdout
        assert "spec.traffic" in text
        assert "ask for" not in text

    def test_the_arithmetic_is_shown(self):
        text = plan("-f", "-", text=yaml.safe_dump(CHAT)).stdout
        for part in (
            "79.19 GiB × 92 % = 72.85 GiB − weights 14.96 GiB − overhead 4.00 GiB = 53.90 GiB",
            "÷ 131,072 bytes a token and rank = 441,520 tokens a replica",
            "6,000,000 requests ÷ 2,592,000 s = 2.315/s × 4 = 9.259/s at the peak",
            "× 60 × 860 tokens = 477,778 TPM × 1.5 headroom = 716,667 TPM",
            "u = min(0.745 by ITL 40 ms, 0.755 by 256 sequences) = 0.745, bound by ITL",
            "9.259/s × 1.5 ÷ 34.56/s = 0.402 → 1 active + 0 warm on 1 GPU",
        ):
            assert part in text

    def test_no_line_of_text_is_wider_than_a_terminal(self):
        text = plan("-f", "-", "--details", "--method", "napkin", text=yaml.safe_dump_all([CHAT, SLOW])).stdout
        assert max(len(line) for line in text.splitlines()) <= 116

    def test_a_narrow_terminal_gets_the_columns_that_matter_most(self):
        manifests = [read_service(document) for document in (CHAT, AGENTS, SLOW)]
        plans = [plan_service("team-a", service.metadata.name, service.spec) for service in manifests]
        for columns in (80, 100, 140):
            lines = list(report(plans, None, {}, napkin=True, details=True, columns=columns))
            assert max(len(line) for line in lines) <= columns
        narrow = next(report(plans, None, {}, napkin=False, details=False, columns=80)).split()
        assert narrow == ["SERVICE", "GPU", "REPLICAS", "GPUS", "TPM", "+", "HEADROOM", "STATE"]

    def test_many_services_are_explained_only_where_they_do_not_fit(self):
        many = [a_manifest(f"chat-{index}") for index in range(8)]
        text = plan("-f", "-", text=yaml.safe_dump_all([*many, SLOW])).stdout
        assert "team-a/slow  hf://" in text
        assert "team-a/chat-1  hf://" not in text

    def test_the_napkin_beside_it(self):
        text = plan("-f", "-", "--method", "napkin", text=yaml.safe_dump(a_manifest("chat", LLAMA_2_7B))).stdout
        assert "4.179 ms a step, 11,964 tokens/s, 59.8 requests/s: 2 active + 1 warm" in text
        assert "queue 20, cooldowns 90 s and 300 s, replicas 2 to 8" in text
        assert "Why they differ" in text


class TestMarkdown:
    def test_a_comment_for_a_pull_request(self):
        text = plan("-f", "-", "-o", "markdown", text=yaml.safe_dump_all([CHAT, AGENTS])).stdout
        assert text.startswith("## Capacity plan\n\n| SERVICE | GPU | REPLICAS |")
        assert "**ask for 1,500,000 TPM**" in text
        assert text.count("<details>") == text.count("</details>") == 2

    def test_problems_are_in_sight(self):
        result = plan("-f", "-", "-o", "markdown", text=yaml.safe_dump(SLOW))
        assert result.exit_code == 1
        assert "- **team-a/slow** `spec.slo.interTokenLatency.mean` `40ms` cannot be kept" in result.stdout

    def test_every_row_has_as_many_cells_as_the_header(self):
        flags = ("-o", "markdown", "--method", "napkin")
        text = plan("-f", "-", *flags, text=yaml.safe_dump_all([CHAT, SLOW])).stdout
        tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
        assert len(tables) >= 2
        for table in tables:
            assert len({line.replace("\\|", "").count("|") for line in table}) == 1

    def test_a_message_cannot_become_markup(self):
        hostile = a_manifest("chat", "s3://bucket/<img>|x")
        text = plan("-f", "-", "-o", "markdown", text=yaml.safe_dump(hostile)).stdout
        assert "<img>" not in text.replace("`s3://bucket/<img>|x`", "")


class TestChart:
    def test_a_picture_is_written(self, tmp_path):
        target = tmp_path / "plan.png"
        result = plan("-f", "-", "--chart", str(target), text=yaml.safe_dump_all([CHAT, AGENTS, SLOW]))
        assert result.exit_code == 1
        assert target.read_bytes().startswith(b"\x89PNG")
        assert f"wrote {target}" in result.stderr

    def test_one_that_cannot_be_written(self, tmp_path):
        result = plan("-f", "-", "--chart", str(tmp_path / "no/where.png"), text=yaml.safe_dump(CHAT))
        assert result.exit_code == 2
        assert "cannot be written" in result.stderr

    def test_nothing_to_draw(self, tmp_path):
        result = plan("-f", "-", "--chart", str(tmp_path / "plan.png"), text=yaml.safe_dump(NEW))
        assert result.exit_code == 2
        assert "no service could be planned" in result.stderr
