"""The simulated vLLM server parses the rendered command line as vLLM does."""

import pytest

from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from tests.workloads.manifests import MANIFESTS
from tests.workloads.specs import a_spec, arguments_of


@pytest.mark.parametrize("name", MANIFESTS)
def test_engine_sim_accepts_the_rendered_arguments(name):
    serve = parse_serve(arguments_of(a_spec(MANIFESTS[name])))
    assert serve.served_model_names == ("team-a/chat",)
    assert (serve.host, serve.port) == ("0.0.0.0", 8000)  # noqa: S104


def test_engine_sim_reads_sizes_limits_and_the_drain_timeout():
    serve = parse_serve(arguments_of(a_spec(MANIFESTS["tensor-parallel"])))
    assert serve.model == "meta-llama/Llama-3.1-70B-Instruct"
    assert (serve.max_model_len, serve.max_num_seqs, serve.shutdown_timeout) == (32768, 128, 600)
    assert (serve.gpu_memory_utilization, serve.kv_cache_dtype) == (0.9, "fp8")


def test_engine_sim_refuses_an_unknown_flag():
    with pytest.raises(SystemExit) as stopped:
        parse_serve(arguments_of(a_spec(engine={"extraArgs": ["--no-such-flag"]})))
    assert stopped.value.code == 2
