"""`forebay fit`: turns measurements of one engine into a PerformanceProfile and says how well it fits."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from forebay.api.performance_profile import PROFILE_KIND
from forebay.api.schema.base_model import API_VERSION
from forebay.api.schema.manifest import ManifestError, read_profile
from forebay.capacity.calibration.step_fit import COEFFICIENTS, Fit, FitError
from forebay.capacity.calibration.step_fit import fit as fit_steps
from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.checkpoint_config import ConfigError, read_config
from forebay.capacity.model.gpu_memory import Sizes
from forebay.capacity.model.model_catalogue import CatalogueModel, gpu_of, model_of
from forebay.capacity.model.profile_choice import ChosenProfile, EngineSetup, choose_profile
from forebay.capacity.model.quantization import Quantization, quantization_of
from forebay.cli.plan.fit_measurements import read_observations

DONE, POOR, BAD_INPUT = 0, 1, 2
"""Exit codes: a profile, a profile that fits badly, no profile."""
POOR_ERROR = 0.25
"""Above this mean error the built-in estimates are better than the profile."""
LETTERS = {"step_seconds": "a", "prompt_token_seconds": "b", "sequence_seconds": "c", "kv_token_seconds": "d"}
"""The coefficients of the step's time T = a + b·P + c·B + d·K (prompt tokens, sequences, KV tokens)."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The flags as they were typed; no file has been opened."""

    files: tuple[Path, ...]
    model: str
    gpu: str
    tensor: int = 1
    bits: int | None = None
    engine_version: str | None = None
    config: Path | None = None
    name: str | None = None


def fit(options: FitOptions) -> int:
    """Print the profile, and on standard error how well it fits. Returns the exit code."""
    try:
        prior = _prior(options)
        result = fit_steps(read_observations(options.files), prior.profile)
        manifest = _manifest(options, result)
        read_profile(manifest)
    except (FitError, ManifestError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    print(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True), end="")
    print("\n".join(_summary(result, prior)), file=sys.stderr)
    return POOR if result.mean_error > POOR_ERROR else DONE


def _prior(options: FitOptions) -> ChosenProfile:
    """The profile that a plan would use without any measurement."""
    gpu = gpu_of(options.gpu)
    if gpu is None:
        raise FitError(f'--gpu: "{options.gpu}" is not a GPU of the catalogue')
    known = model_of(options.model)
    architecture = _architecture(options, known)
    pairing = EngineSetup(
        source=options.model.partition("@")[0],
        model=known.name if known else None,
        architecture=architecture,
        gpu=gpu,
        quantization=_quantization(options, known),
        kv_bits=16,
        sizes=Sizes(tensor=options.tensor),
    )
    return choose_profile(pairing, 1)


def _architecture(options: FitOptions, known: CatalogueModel | None) -> Architecture:
    if options.config is None:
        if known is None:
            raise FitError(f'--model: "{options.model}" is not in the catalogue; give its config.json with --config')
        return known.architecture
    try:
        config = json.loads(options.config.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ConfigError("is not a JSON object")
        return read_config(config).architecture
    except OSError as error:
        raise FitError(f"--config {options.config}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise FitError(f"--config {options.config}: {error}") from error


def _quantization(options: FitOptions, known: CatalogueModel | None) -> Quantization:
    quantization = quantization_of(None, known.bits if known else None, options.bits) or quantization_of(
        "none", None, None
    )
    assert quantization is not None
    return quantization


def _manifest(options: FitOptions, result: Fit) -> dict[str, Any]:
    profile = result.profile
    spec: dict[str, Any] = {
        "model": options.model.partition("@")[0],
        "product": options.gpu,
        "tensorParallelSize": options.tensor,
        "stepMilliseconds": _rounded(profile.step_seconds * 1e3),
        "promptTokenMicroseconds": _rounded(profile.prompt_token_seconds * 1e6),
        "sequenceMicroseconds": _rounded(profile.sequence_seconds * 1e6),
        "kvTokenNanoseconds": _rounded(profile.kv_token_seconds * 1e9),
        "errorPercent": min(100, max(5, round(200 * result.mean_error))),
        "measuredWith": f"forebay fit, {result.observations} observations, mean error {result.mean_error:.1%}",
    }
    if options.bits is not None:
        spec["weightBits"] = options.bits
    if options.engine_version is not None:
        spec["engineVersion"] = options.engine_version
    metadata = {"name": options.name or _name(options)}
    return {"apiVersion": API_VERSION, "kind": PROFILE_KIND, "metadata": metadata, "spec": spec}


def _name(options: FitOptions) -> str:
    """Model and GPU as a valid object name."""
    model = options.model.partition("@")[0].rstrip("/").rpartition("/")[2]
    name = re.sub("[^a-z0-9.]+", "-", f"{model}-{options.gpu}-tp{options.tensor}".casefold())
    return name.strip("-.")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _summary(result: Fit, prior: ChosenProfile) -> Iterator[str]:
    yield (
        f"{result.observations} observations, mean error {result.mean_error:.1%}, largest {result.largest_error:.1%}; "
        f"the prior is {prior.name}"
    )
    for name in COEFFICIENTS:
        before, after = getattr(prior.profile, name), getattr(result.profile, name)
        note = (
            ""
            if name in result.determined
            else " (these loads do not determine it; vary the prompt and output lengths)"
        )
        yield f"  {LETTERS[name]}  {after:.4g} s, {after / before:.2f} times the prior{note}"
    if result.mean_error > POOR_ERROR:
        yield "This fits worse than the built-in estimates. Check that one engine gave all of them, without errors."
