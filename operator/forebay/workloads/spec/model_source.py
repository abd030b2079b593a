"""Model source: what each scheme of `model.source` adds to an engine's command line and pod.

| scheme | weights | `secretRef` |
|---|---|---|
| `hf://org/name[@revision]` | downloaded into the cache | key `HF_TOKEN` |
| `s3://bucket/path` | streamed | keys of `S3_KEYS`; without it the service account's own identity |
| `gs://bucket/path` | streamed | key `credentials.json`; without it the service account's own identity |
| `oci://registry/repository:tag` | the root of an image, mounted | pull secret |
| `pvc://claim/path` | a folder of a claim, mounted read-only | none |

Images as volumes need Kubernetes 1.35, or 1.33 with the feature gate ImageVolume.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.api.inference_service import ModelSpec
from forebay.api.spec.pod_paths import MODELS, SECRETS

CREDENTIALS_DIRECTORY: Final = f"{SECRETS}/forebay.dev/model"
GOOGLE_CREDENTIALS_FILE: Final = "credentials.json"
S3_KEYS: Final[Mapping[str, bool]] = {
    "AWS_ACCESS_KEY_ID": False,
    "AWS_SECRET_ACCESS_KEY": False,
    "AWS_SESSION_TOKEN": True,
    "AWS_REGION": True,
    "AWS_ENDPOINT_URL": True,
    "AWS_EC2_METADATA_DISABLED": True,
    "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": True,
}
"""Keys of the Secret of an `s3://` source, set as environment variables of the same name; True marks optional keys."""


@dataclass(frozen=True, slots=True)
class Location:
    """The parts of a `model.source`."""

    scheme: str
    path: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class SourceParts:
    """Arguments, environment and volumes that a source adds to a pod."""

    model: str
    """First argument of `vllm serve`."""
    arguments: tuple[str, ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()


def parse_source(source: str) -> Location:
    """Parse a source that the API's pattern has accepted."""
    scheme, _, rest = source.partition("://")
    if scheme != "hf":
        return Location(scheme, rest)
    path, _, revision = rest.partition("@")
    return Location(scheme, path, revision or None)


def source_parts(model: ModelSpec) -> SourceParts:
    location = parse_source(model.source)
    return _BUILDERS[location.scheme](location, model.secret_ref.name if model.secret_ref else None)


def _hugging_face(location: Location, secret: str | None) -> SourceParts:
    """vLLM uses `--revision` for the tokenizer as well."""
    return SourceParts(
        model=location.path,
        arguments=(f"--revision={location.revision}",) if location.revision else (),
        env=(_from_secret(secret, "HF_TOKEN", optional=False),) if secret else (),
    )


def _s3(location: Location, secret: str | None) -> SourceParts:
    return SourceParts(
        model=f"s3://{location.path}",
        arguments=("--load-format=runai_streamer",),
        env=tuple(_from_secret(secret, key, optional) for key, optional in S3_KEYS.items()) if secret else (),
    )


def _google_storage(location: Location, secret: str | None) -> SourceParts:
    parts = SourceParts(model=f"gs://{location.path}", arguments=("--load-format=runai_streamer",))
    if secret is None:
        return parts
    items = [{"key": GOOGLE_CREDENTIALS_FILE, "path": GOOGLE_CREDENTIALS_FILE}]
    return SourceParts(
        model=parts.model,
        arguments=parts.arguments,
        env=(
            {"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": f"{CREDENTIALS_DIRECTORY}/{GOOGLE_CREDENTIALS_FILE}"},
        ),
        volumes=({"name": "model-credentials", "secret": {"secretName": secret, "items": items}},),
        mounts=({"name": "model-credentials", "mountPath": CREDENTIALS_DIRECTORY, "readOnly": True},),
    )


def _image(location: Location, secret: str | None) -> SourceParts:
    return SourceParts(
        model=MODELS,
        volumes=({"name": "model", "image": {"reference": location.path, "pullPolicy": "IfNotPresent"}},),
        mounts=({"name": "model", "mountPath": MODELS, "readOnly": True},),
        image_pull_secrets=(secret,) if secret else (),
    )


def _claim(location: Location, secret: str | None) -> SourceParts:
    claim, _, path = location.path.partition("/")
    return SourceParts(
        model=f"{MODELS}/{path.strip('/')}".rstrip("/"),
        volumes=({"name": "model", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}},),
        mounts=({"name": "model", "mountPath": MODELS, "readOnly": True},),
    )


_BUILDERS: Final = {"hf": _hugging_face, "s3": _s3, "gs": _google_storage, "oci": _image, "pvc": _claim}


def _from_secret(secret: str | None, key: str, optional: bool) -> dict[str, Any]:
    reference: dict[str, Any] = {"name": secret, "key": key}
    if optional:
        reference["optional"] = True
    return {"name": key, "valueFrom": {"secretKeyRef": reference}}
