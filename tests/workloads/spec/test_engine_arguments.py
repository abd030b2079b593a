"""The command line, and what each vLLM version makes of it."""

import pytest

from forebay.api.spec.engine_flags import RESERVED_ENV, RESERVED_FLAGS
from forebay.workloads.spec.engine_arguments import flag_name
from forebay.workloads.spec.engine_versions import ADDED_FLAGS, REMOVED_FLAGS, Defaults, version_of_image
from tests.workloads.manifests import MANIFESTS
from tests.workloads.specs import a_pod, a_revision, a_spec, arguments_of, engine_of

OWNED = {name for owned in RESERVED_FLAGS for name in owned.names}
OWNED_VARIABLES = {name for owned in RESERVED_ENV for name in owned.names}
FULL = """
    model: {source: "s3://weights/llama", quantization: fp8, kvCacheDtype: fp8, maxModelLen: 8192}
    engine: {tensorParallelSize: 2, pipelineParallelSize: 2, dataParallelSize: 2}
"""


@pytest.mark.parametrize("text", [*MANIFESTS.values(), FULL])
def test_users_cannot_repeat_a_flag_that_is_rendered(text):
    spec = a_spec(text)
    rendered = arguments_of(spec)[1 : -len(spec.engine.extra_args) or None]
    assert {flag_name(argument) for argument in rendered} - {"--load-format"} <= OWNED


@pytest.mark.parametrize("name", MANIFESTS)
def test_users_cannot_repeat_a_variable_that_decides_how_the_engine_serves(name):
    spec = a_spec(MANIFESTS[name])
    rendered = {variable["name"] for variable in engine_of(a_pod(spec))["env"]}
    credentials = {"HF_TOKEN"} | {name for name in rendered if name.startswith(("AWS_", "GOOGLE_", "RUNAI_"))}
    free = {"HOME", "USER"} | {variable.name for variable in spec.engine.env}
    assert rendered - free - credentials <= OWNED_VARIABLES


@pytest.mark.parametrize("number", range(20, 34))
def test_every_version_knows_all_flags_that_are_rendered(number):
    spec = a_spec(FULL.replace("engine: {", f"engine: {{version: 0.{number}.0, "))
    rendered = {flag_name(argument) for argument in arguments_of(spec)[1:]}
    assert len(rendered) == 13
    removed = {change.name for change in REMOVED_FLAGS if (0, number) >= change.version}
    missing = {change.name for change in ADDED_FLAGS if (0, number) < change.version}
    assert rendered & (removed | missing) == set()


@pytest.mark.parametrize(
    ("speculative", "config"),
    [
        ({"method": "ngram", "tokens": 5}, '{"method":"ngram","num_speculative_tokens":5}'),
        (
            {"method": "eagle3", "model": "hf://example/head", "acceptancePercent": 60},
            '{"method":"eagle3","model":"example/head","num_speculative_tokens":3}',
        ),
    ],
)
def test_speculative_decoding_is_rendered_as_json(speculative, config):
    arguments = arguments_of(a_spec(engine={"speculative": speculative}))
    assert f"--speculative-config={config}" in arguments


def test_the_version_determines_the_image():
    pod = a_pod(a_spec(engine={"version": "0.29.0"}))
    assert engine_of(pod)["image"] == "docker.io/vllm/vllm-openai:v0.29.0"


def test_the_operator_defaults_fill_absent_fields():
    defaults = Defaults("0.33.0", "registry.example.com/vllm:v{version}", 85)
    data = a_revision(a_spec(), defaults=defaults).data
    assert '"registry.example.com/vllm:v0.33.0"' in data
    assert '"--gpu-memory-utilization=0.85"' in data


def test_an_invalid_default_version_is_refused():
    with pytest.raises(ValueError, match='engine version: "nightly" is not a version of vLLM; write all three numbers'):
        Defaults(engine_version="nightly")


def test_extra_arguments_come_last():
    arguments = arguments_of(a_spec(engine={"extraArgs": ["--enforce-eager", "--seed", "7"]}))
    assert arguments[-3:] == ["--enforce-eager", "--seed", "7"]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param({}, [], id="unset"),
        pytest.param({"quantization": "none"}, [], id="none is no method of vLLM"),
        pytest.param({"quantization": "awq"}, ["--quantization=awq"], id="a method"),
        pytest.param({"kvCacheDtype": "auto"}, ["--kv-cache-dtype=auto"], id="cache type"),
    ],
)
def test_precision_flags_are_rendered_only_if_set(model, expected):
    arguments = arguments_of(a_spec(model={"source": "hf://org/name", **model}))
    assert [argument for argument in arguments if "quantization" in argument or "kv-cache" in argument] == expected


@pytest.mark.parametrize(
    ("source", "first", "rest"),
    [
        pytest.param("hf://org/name", "org/name", [], id="hf"),
        pytest.param("hf://org/name@refs/pr/7", "org/name", ["--revision=refs/pr/7"], id="hf at a revision"),
        pytest.param("s3://bucket/a/b", "s3://bucket/a/b", ["--load-format=runai_streamer"], id="s3"),
        pytest.param("gs://bucket/a/b", "gs://bucket/a/b", ["--load-format=runai_streamer"], id="gs"),
        pytest.param("oci://registry.example.com/models/a:1", "/models", [], id="oci"),
        pytest.param("pvc://claim/a/b/", "/models/a/b", [], id="pvc"),
        pytest.param("pvc://claim", "/models", [], id="a whole claim"),
    ],
)
def test_the_model_argument_of_each_source(source, first, rest):
    arguments = arguments_of(a_spec(model={"source": source}))
    assert arguments[0] == first
    assert arguments[1 : arguments.index("--served-model-name=team-a/chat")] == rest


def test_a_load_format_in_extra_args_replaces_the_streamer():
    arguments = arguments_of(
        a_spec(model={"source": "s3://bucket/a"}, engine={"extraArgs": ["--load_format", "runai_streamer_sharded"]})
    )
    assert [argument for argument in arguments if "format" in argument] == ["--load_format"]


def test_the_users_variable_replaces_ours():
    variables = engine_of(a_pod(a_spec(engine={"env": [{"name": "HOME", "value": "/data"}]})))["env"]
    assert [variable["value"] for variable in variables if variable["name"] == "HOME"] == ["/data"]


@pytest.mark.parametrize(
    ("argument", "flag"),
    [
        ("--max-num-seqs=4", "--max-num-seqs"),
        ("--max_num_seqs", "--max-num-seqs"),
        ("--speculative-config.method=ngram", "--speculative-config"),
        ("--lora-modules+", "--lora-modules"),
        ("-tp", "-tp"),
        ("-1", None),
        ("eagle", None),
    ],
)
def test_the_flag_of_an_argument(argument, flag):
    assert flag_name(argument) == flag


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("docker.io/vllm/vllm-openai:v0.29.0", "0.29.0"),
        ("registry:5000/vllm:0.29.1-cu129@sha256:" + "0" * 64, "0.29.1"),
        ("registry:5000/vllm", None),
        ("registry:5000/vllm:latest", None),
        ("registry:5000/vllm/chat-engine:1.4.0", None),
        ("registry:5000/vllm@sha256:" + "0" * 64, None),
    ],
)
def test_the_version_an_image_states(image, version):
    assert version_of_image(image) == version
