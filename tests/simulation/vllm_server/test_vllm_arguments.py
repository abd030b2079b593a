"""The simulator's parser of `vllm serve`: it accepts what Forebay renders and refuses what vLLM refuses."""

from typing import get_args

import pytest

from forebay.api.spec.engine_spec import KvCacheDtype, Quantization
from forebay.simulation.engine.simulated_profile import BUILT_IN
from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from forebay.workloads.spec.engine_versions import ADDED_FLAGS, REMOVED_FLAGS, REMOVED_FORMATS
from tests.simulation.load import a_profile


def test_a_rendered_command_line():
    serve = parse_serve(
        [
            "org/model",
            "--load-format=runai_streamer",
            "--revision=main",
            "--served-model-name=team-a/chat",
            "--host=0.0.0.0",
            "--port=8000",
            "--tensor-parallel-size=2",
            "--max-model-len=4096",
            "--quantization=fp8",
            "--kv-cache-dtype=fp8",
            "--gpu-memory-utilization=0.92",
            "--max-num-seqs=64",
            "--shutdown-timeout=300",
        ]
    )
    assert serve.model == "org/model"
    assert serve.served_model_names == ("team-a/chat",)
    assert (serve.max_model_len, serve.max_num_seqs, serve.shutdown_timeout) == (4096, 64, 300)
    limits = serve.limits(BUILT_IN["8b-h100"])
    assert (limits.max_num_seqs, limits.max_num_batched_tokens, limits.kv_blocks) == (64, 8192, 29_187)


def test_defaults_are_those_of_a_large_gpu():
    serve = parse_serve(["m"])
    assert (serve.served_model_names, serve.port, serve.shutdown_timeout) == (("m",), 8000, 0)
    assert (serve.max_num_seqs, serve.max_num_batched_tokens, serve.block_size) == (1024, 8192, 16)


def test_without_a_stated_length_the_longest_that_fits_is_served():
    assert parse_serve(["m"]).limits(a_profile(kv_tokens=20_000)).max_model_len == 19_984
    assert parse_serve(["m"]).limits(BUILT_IN["8b-h100"]).max_model_len == 131_072


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        pytest.param(["--max_num_seqs", "8"], "max_num_seqs", 8, id="underscores"),
        pytest.param(["--max-model-len", "16k"], "max_model_len", 16_000, id="thousands"),
        pytest.param(["--max-model-len=2K"], "max_model_len", 2_048, id="multiples of 1,024"),
        pytest.param(["--max-model-len", "-1"], "max_model_len", None, id="as long as fits"),
        pytest.param(["--max-model-len=auto"], "max_model_len", None, id="auto"),
        pytest.param(["-dp", "2"], "data_parallel_size", 2, id="short form"),
        pytest.param(["--no-enable-prefix-caching"], "enable_prefix_caching", False, id="switched off"),
        pytest.param(["--served-model-name", "a", "b"], "served_model_names", ("a", "b"), id="several names"),
        pytest.param(["-tp", "2", "-q", "fp8", "-O3", "--enforce-eager"], "max_num_seqs", 1024, id="no effect"),
        pytest.param(["--speculative-config", '{"method": "ngram"}'], "max_num_seqs", 1024, id="JSON"),
        pytest.param(["--speculative-config.method", "ngram"], "max_num_seqs", 1024, id="one entry of JSON"),
        pytest.param(["--max-num-queued-reqs", "12"], "max_queued_requests", 12, id="queue bound"),
    ],
)
def test_spellings(arguments, field, value):
    assert getattr(parse_serve(["m", *arguments]), field) == value


def test_the_model_may_still_come_as_a_flag(capsys):
    assert parse_serve(["--port", "8001", "--model", "org/m"]).model == "org/m"
    assert "positional argument" in capsys.readouterr().err


@pytest.mark.parametrize("method", [name for name in get_args(Quantization) if name != "none"])
def test_every_quantization_of_the_api_that_vllm_still_has(method):
    if method in {change.name for change in REMOVED_FORMATS}:
        with pytest.raises(SystemExit):
            parse_serve(["m", f"--quantization={method}"])
    else:
        parse_serve(["m", f"--quantization={method}"])


@pytest.mark.parametrize("dtype", get_args(KvCacheDtype))
def test_every_kv_cache_type_of_the_api(dtype):
    assert parse_serve(["m", f"--kv-cache-dtype={dtype}"]).kv_cache_dtype == dtype


@pytest.mark.parametrize("flag", [change.name for change in REMOVED_FLAGS])
def test_removed_flags_end_the_process(flag, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_serve(["m", flag])
    assert ended.value.code == 2
    assert f"vllm: error: unrecognized arguments: {flag}" in capsys.readouterr().err


@pytest.mark.parametrize("flag", [change.name for change in ADDED_FLAGS if change.version <= (0, 32)])
def test_added_flags_are_known(flag, capsys):
    """Whether the value suits it or not, it is not an unknown flag."""
    try:
        parse_serve(["m", f"{flag}=1"])
    except SystemExit:
        assert "unrecognized arguments" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["m", "--fast"], "unrecognized arguments: --fast", id="unknown flag"),
        pytest.param(["m", "--max-num-seq", "8"], "unrecognized arguments: --max-num-seq 8", id="no abbreviations"),
        pytest.param(["m", "--max-num-seqs", "many"], "invalid int value: 'many'", id="text for a number"),
        pytest.param(["m", "--speculative-config", "[1]"], "invalid json value: '[1]'", id="not an object"),
        pytest.param(["m", "--load-format", "gguf"], "invalid choice: 'gguf'", id="load format that left"),
        pytest.param(["m", "--gpu-memory-utilization", "92"], "92.0 is not in (0, 1]", id="percent for a fraction"),
        pytest.param(["m", "--data-parallel-size", "0"], "0 is below 1", id="no engine"),
        pytest.param(["m", "--shutdown-timeout", "-1"], "-1 is negative", id="negative time-out"),
        pytest.param([], "required: model_tag", id="no model"),
        pytest.param(["a", "b"], "unrecognized arguments: b", id="two models"),
    ],
)
def test_refusals(arguments, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_serve(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_cache_too_small_for_one_request_is_refused():
    with pytest.raises(
        ValueError, match=r"max seq len \(8192\), 8192 tokens of KV cache are needed, .* available 3984"
    ):
        parse_serve(["m", "--max-model-len", "8192"]).limits(a_profile(kv_tokens=4000))


def test_fewer_batched_tokens_than_sequences_are_refused():
    with pytest.raises(ValueError, match=r"max_num_batched_tokens \(64\) must be greater"):
        parse_serve(["m", "--max-num-batched-tokens", "64"]).limits(a_profile())
