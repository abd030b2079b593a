"""What can be wrong with a spec that its schema accepts: a chain of small checks, each a Problem or nothing.

A service with a problem gets no pods; what already runs stays. Warnings stop nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.api.engine_flags import OWNED_FLAGS
from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.model import GROUP
from forebay.planner.world import Problem
from forebay.workloads import engines
from forebay.workloads.arguments import flag_name
from forebay.workloads.engines import Engine


@dataclass(frozen=True, slots=True)
class Submission:
    """A spec, the engine it resolves to, and the PodTemplate it names, if that was found."""

    spec: InferenceServiceSpec
    engine: Engine
    template: Mapping[str, Any] | None = None


Check = Callable[[Submission], Problem | None]


def problems_of(submission: Submission) -> tuple[Problem, ...]:
    """Every check's finding, so that a manifest is corrected in one go."""
    return tuple(problem for check in CHECKS if (problem := check(submission)))


def warnings_of(submission: Submission) -> tuple[Problem, ...]:
    """Findings that people should see and that stop nothing."""
    return tuple(warning for check in WARNINGS if (warning := check(submission)))


def engine_version_unsupported(submission: Submission) -> Problem | None:
    version = submission.engine.version
    minor = engines.minor(version)
    oldest = f"{engines.OLDEST[0]}.{engines.OLDEST[1]}.0"
    if minor is None:
        return Problem(
            "EngineVersionInvalid",
            f'spec.engine.version: "{version}" is not a vLLM version; write all three numbers, such as '
            f"{engines.Defaults().engine_version}.",
        )
    if minor < engines.OLDEST:
        return Problem(
            "EngineVersionUnsupported",
            f'spec.engine.version: "{version}" is older than {oldest}, the oldest that Forebay can drain and measure; '
            f"use {oldest} or newer, or state the version here when the image's tag counts something else.",
        )
    return None


def flag_abbreviated(submission: Submission) -> Problem | None:
    """A command line takes an unambiguous beginning of a flag for the flag: `--tensor-parallel` would set ours."""
    for flag in _extra_flags(submission):
        for owned in OWNED_FLAGS:
            name = next((name for name in owned.names if _begins(flag, name)), None)
            if name is not None:
                return Problem(
                    "EngineFlagReserved",
                    f'spec.engine.extraArgs: "{flag}" is short for {name}, which {owned.instead}.',
                )
    return None


def flag_unavailable(submission: Submission) -> Problem | None:
    """An engine of another version than this flag's would die at start, after its GPU was waited for."""
    version = _known_minor(submission)
    for flag in _extra_flags(submission):
        for change in engines.REMOVED_FLAGS:
            if flag == change.name and version >= change.version:
                return _unavailable(submission, flag, f"was removed by {_release(change.version)}", change.way_out)
        for change in engines.ADDED_FLAGS:
            if flag == change.name and version < change.version:
                return _unavailable(submission, flag, f"came with {_release(change.version)}", change.way_out)
    return None


def format_unavailable(submission: Submission) -> Problem | None:
    version = _known_minor(submission)
    for change in engines.REMOVED_FORMATS:
        if version < change.version:
            continue
        if submission.spec.model.quantization == change.name:
            field = "spec.model.quantization"
        elif _load_format(submission) == change.name:
            field = "spec.engine.extraArgs: --load-format"
        else:
            continue
        return Problem(
            "FormatUnavailable",
            f'{field}: "{change.name}" is not supported by vLLM {submission.engine.version}: it left with '
            f"{_release(change.version)}; {change.way_out}.",
        )
    return None


def annotation_reserved(submission: Submission) -> Problem | None:
    """`forebay.dev/drain-started` on a new pod would make it a draining one."""
    annotations = (submission.template or {}).get("metadata", {}).get("annotations") or {}
    name = next((name for name in sorted(annotations) if name.startswith(f"{GROUP}/")), None)
    if name is None:
        return None
    return Problem(
        "AnnotationReserved",
        f'spec.pod.templateRef: the annotation "{name}" of PodTemplate "{submission.spec.pod.template_ref}" is how '
        "Forebay remembers drains; choose another prefix.",
    )


def template_missing(submission: Submission) -> Problem | None:
    name = submission.spec.pod.template_ref
    if name is None or submission.template is not None:
        return None
    return Problem(
        "PodTemplateNotFound",
        f'spec.pod.templateRef: there is no PodTemplate "{name}" in the namespace of the service; create it, or leave '
        "the field out.",
    )


def engine_version_unknown(submission: Submission) -> Problem | None:
    minor = engines.minor(submission.engine.version)
    if minor is None or minor <= engines.NEWEST:
        return None
    return Problem(
        "EngineVersionUnknown",
        f'spec.engine.version: "{submission.engine.version}" is newer than {_release(engines.NEWEST)}, the newest that '
        "Forebay knows; it is run and measured as that one.",
    )


def routes_need_own_name(submission: Submission) -> Problem | None:
    minor = engines.minor(submission.engine.version)
    if minor is None or minor >= engines.ANY_MODEL_NAME_SINCE:
        return None
    return Problem(
        "EngineChecksModelName",
        f'spec.engine.version: "{submission.engine.version}" answers to namespace/name only; for short names by a '
        f"ModelRoute use {_release(engines.ANY_MODEL_NAME_SINCE)} or newer.",
    )


CHECKS: Final[tuple[Check, ...]] = (
    engine_version_unsupported,
    flag_abbreviated,
    flag_unavailable,
    format_unavailable,
    annotation_reserved,
    template_missing,
)
WARNINGS: Final[tuple[Check, ...]] = (engine_version_unknown, routes_need_own_name)


def _extra_flags(submission: Submission) -> list[str]:
    return [flag for argument in submission.spec.engine.extra_args if (flag := flag_name(argument))]


def _begins(flag: str, owned: str) -> bool:
    return flag.startswith("--") and len(flag) > len("--") and owned.startswith(flag)


def _known_minor(submission: Submission) -> tuple[int, int]:
    """The version to judge by: the newest known one for a version that is none, which another check reports."""
    return engines.minor(submission.engine.version) or engines.NEWEST


def _release(version: tuple[int, int]) -> str:
    return f"vLLM {version[0]}.{version[1]}"


def _load_format(submission: Submission) -> str | None:
    arguments = submission.spec.engine.extra_args
    for position, argument in enumerate(arguments):
        if flag_name(argument) == "--load-format":
            _, separator, value = argument.partition("=")
            return value if separator else next(iter(arguments[position + 1 : position + 2]), None)
    return None


def _unavailable(submission: Submission, flag: str, why: str, way_out: str) -> Problem:
    return Problem(
        "EngineFlagUnavailable",
        f'spec.engine.extraArgs: "{flag}" is not a flag of vLLM {submission.engine.version}: it {why}; {way_out}.',
    )
