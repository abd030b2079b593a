"""The reserved flags and variables of an engine, compared with those that Forebay renders."""

import re

import pytest

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.labels import POD_ANNOTATIONS
from forebay.api.spec.engine_flags import RESERVED_ENV, RESERVED_FLAGS, ReservedNames, flag_pattern
from forebay.api.spec.pod_paths import RESERVED_DIRECTORIES, RESERVED_TREES, RESERVED_VOLUMES
from forebay.workloads.objects import volumes
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.pod_template import pod_template
from forebay.workloads.spec.engine_arguments import engine_arguments, engine_environment, flag_name
from forebay.workloads.spec.engine_versions import Defaults, resolve_engine
from forebay.workloads.spec.model_source import source_parts
from forebay.world.world import ServiceKey
from tests.builders.manifests import a_full_spec

USER_MAY_OVERRIDE = {
    "--load-format",
    "--max-num-batched-tokens",
    "--distributed-executor-backend",
    "HOME",
    "USER",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_EC2_METADATA_DISABLED",
}
"""Forebay renders these, and a user's own value replaces them."""

REFUSED_BESIDE_FIELD = {"--speculative-config"}
"""A user may set these, except beside the field that renders them."""

SOURCES = ("hf://a/b@main", "s3://bucket/a", "gs://bucket/a", "oci://registry/a:1")
FLAGS = {name for reserved in RESERVED_FLAGS for name in reserved.names}
VARIABLES = {name for reserved in RESERVED_ENV for name in reserved.names}


def a_spec(source: str) -> InferenceServiceSpec:
    spec = a_full_spec()
    spec["model"]["source"] = source
    spec["engine"] |= {"extraArgs": [], "env": [], "nodes": 2, "dataParallelSize": 1}
    return InferenceServiceSpec.model_validate(spec)


@pytest.mark.parametrize("source", SOURCES)
def test_every_rendered_flag_is_refused_in_extra_arguments(source):
    spec = a_spec(source)
    engine = resolve_engine(spec.engine, Defaults())
    arguments = engine_arguments(spec, ServiceKey("team", "chat"), engine, source_parts(spec.model))
    rendered = {flag for argument in arguments if (flag := flag_name(argument))}
    assert rendered - FLAGS - USER_MAY_OVERRIDE - REFUSED_BESIDE_FIELD == set()


@pytest.mark.parametrize("source", SOURCES)
def test_every_rendered_variable_is_refused_in_env(source):
    spec = a_spec(source)
    engine = resolve_engine(spec.engine, Defaults())
    rendered = {variable["name"] for variable in engine_environment(spec, engine, source_parts(spec.model))}
    assert rendered - VARIABLES - USER_MAY_OVERRIDE == {name for name in rendered if name.startswith("RUNAI_STREAMER_")}


@pytest.mark.parametrize("source", [*SOURCES, "pvc://claim/a"])
def test_every_rendered_mount_path_is_refused_in_volumes(source):
    spec = InferenceServiceSpec.model_validate({"model": {"source": source}, "engine": {"tensorParallelSize": 2}})
    engine = resolve_engine(spec.engine, Defaults())
    mounts = [mount["mountPath"] for mount in volumes.volume_mounts(spec, engine, source_parts(spec.model))]
    closed = [path for path in mounts if path in RESERVED_DIRECTORIES or path.startswith(RESERVED_TREES)]
    assert closed == mounts


def test_every_rendered_volume_name_is_refused_in_volumes():
    rendered: set[str] = set()
    for source in (*SOURCES, "pvc://claim/a"):
        model = {"source": source} | ({} if source.startswith("pvc") else {"secretRef": {"name": "key"}})
        spec = InferenceServiceSpec.model_validate({"model": model, "engine": {"tensorParallelSize": 2}})
        engine = resolve_engine(spec.engine, Defaults())
        rendered |= {volume["name"] for volume in volumes.pod_volumes(spec, engine, source_parts(spec.model))}
    assert rendered == set(RESERVED_VOLUMES)


def test_every_rendered_annotation_is_refused_in_pod_annotations():
    spec = a_spec("hf://a/b")
    owner = Owner(ServiceKey("team", "chat"), "0f0f0f0f-0000-0000-0000-000000000000")
    template = pod_template(spec, owner, resolve_engine(spec.engine, Defaults()), None)
    assert template["metadata"]["annotations"].keys() - (spec.pod.annotations or {}).keys() == set(POD_ANNOTATIONS)


@pytest.mark.parametrize(
    ("names", "argument", "taken"),
    [
        (("--max-num-seqs",), "--max-num-seqs", True),
        (("--max-num-seqs",), "--max-num-seqs=4", True),
        (("--max-num-seqs",), "--max_num-seqs=4", True),
        (("--max-num-seqs",), "--max-num-seqs=", True),
        (("--max-num-seqs",), "--max-num-seqs-per-lora=4", False),
        (("--max-num-seqs",), "max-num-seqs", False),
        (("--model",), "--model-impl=auto", False),
        (("-tp",), "-tp", True),
        (("-tp",), "-tp=2", True),
        (("-tp",), "-tpx", False),
        (("-q",), "-q", True),
        (("-q",), "-qfp8", True),
        (("-q",), "--q", False),
    ],
)
def test_a_flag_is_known_in_each_of_its_spellings(names, argument, taken):
    pattern = flag_pattern(ReservedNames(names, "is taken"))
    assert (re.fullmatch(pattern, argument) is not None) == taken


def test_no_name_is_reserved_twice():
    names = [name for reserved in (*RESERVED_FLAGS, *RESERVED_ENV) for name in reserved.names]
    assert len(names) == len(set(names))
