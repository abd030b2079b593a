"""`forebay fit`: from measurements of one engine to a PerformanceProfile, with how well it fits."""

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
from forebay.capacity.calibration.step_fit import COEFFICIENTS, Fit, FitError, fit
from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.checkpoint_config import ConfigError, read_config
from forebay.capacity.model.gpu_memory import Sizes
from forebay.capacity.model.model_catalogue import CatalogueModel, gpu_of, model_of
from forebay.capacity.model.profile_choice import ChosenProfile, EngineSetup, choose_profile
from forebay.capacity.model.quantization import Quantization, quantization_of
from forebay.cli.plan.fit_measurements import read_observations

DONE, POOR, BAD_INPUT = 0, 1, 2
"""Exit codes: a profile, one that fits badly, and none."""
POOR_ERROR = 0.25
"""Mean error from which on a profile is worth less than the built-in estimates."""
LETTERS = {"step_seconds": "a", "prompt_token_seconds": "b", "sequence_seconds": "c", "kv_token_seconds": "d"}


@dataclass(frozen=True, slots=True)
class FitOptions:
    files: tuple[Path, ...]
    model: str
    gpu: str
    tensor: int = 1
    bits: int | None = None
    engine_version: str | None = None
    config: Path | None = None
    name: str | None = None


def run_fit(options: FitOptions) -> int:
    """Print the profile, and on standard error how well it fits; the exit code."""
    try:
        believed = _believed(options)
        found = fit(read_observations(options.files), believed.profile)
        manifest = _manifest(options, found)
        read_profile(manifest)
    except (FitError, ManifestError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    print(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True), end="")
    print("\n".join(_words(found, believed)), file=sys.stderr)
    return POOR if found.mean_error > POOR_ERROR else DONE


def _believed(options: FitOptions) -> ChosenProfile:
    """What would be planned with if nothing had been measured."""
    gpu = gpu_of(options.gpu)
    if gpu is None:
        raise FitError(f'--gpu: "{options.gpu}" is not a card of the catalogue')
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
    found = quantization_of(None, known.bits if known else None, options.bits) or quantization_of("none", None, None)
    assert found is not None
    return found


def _manifest(options: FitOptions, found: Fit) -> dict[str, Any]:
    profile = found.profile
    spec: dict[str, Any] = {
        "model": options.model.partition("@")[0],
        "product": options.gpu,
        "tensorParallelSize": options.tensor,
        "stepMilliseconds": _rounded(profile.step_seconds * 1e3),
        "promptTokenMicroseconds": _rounded(profile.prompt_token_seconds * 1e6),
        "sequenceMicroseconds": _rounded(profile.sequence_seconds * 1e6),
        "kvTokenNanoseconds": _rounded(profile.kv_token_seconds * 1e9),
        "errorPercent": min(100, max(5, round(200 * found.mean_error))),
        "measuredWith": f"forebay fit, {found.observations} observations, mean error {found.mean_error:.1%}",
    }
    if options.bits is not None:
        spec["weightBits"] = options.bits
    if options.engine_version is not None:
        spec["engineVersion"] = options.engine_version
    metadata = {"name": options.name or _name(options)}
    return {"apiVersion": API_VERSION, "kind": PROFILE_KIND, "metadata": metadata, "spec": spec}


def _name(options: FitOptions) -> str:
    """Of the model and the card, as an object may be called."""
    model = options.model.partition("@")[0].rstrip("/").rpartition("/")[2]
    words = re.sub("[^a-z0-9.]+", "-", f"{model}-{options.gpu}-tp{options.tensor}".casefold())
    return words.strip("-.")


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _words(found: Fit, believed: ChosenProfile) -> Iterator[str]:
    yield (
        f"{found.observations} observations, mean error {found.mean_error:.1%}, largest {found.largest_error:.1%}; "
        f"started from {believed.name}"
    )
    for name in COEFFICIENTS:
        before, after = getattr(believed.profile, name), getattr(found.profile, name)
        told = "" if name in found.determined else " (not told by these loads: vary the lengths of prompts and answers)"
        yield f"  {LETTERS[name]}  {after:.4g} s, {after / before:.2f} times what was believed{told}"
    if found.mean_error > POOR_ERROR:
        yield "This fits worse than the built-in estimates; were all measurements of one engine, without errors?"
