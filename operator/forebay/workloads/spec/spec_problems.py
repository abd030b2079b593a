"""Spec problems: faults of a spec that its schema accepts, found by a chain of small checks.

Each check returns a problem or nothing. A service with a problem gets no new pods; running pods stay. Warnings have no
such effect.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.api.reasons import Reason
from forebay.api.schema.base_model import GROUP
from forebay.api.spec.engine_flags import RESERVED_FLAGS
from forebay.schedules.timetable import fault_of
from forebay.workloads.objects.ranks import EXECUTOR
from forebay.workloads.spec import engine_versions
from forebay.workloads.spec.engine_arguments import flag_name
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.world.world import SpecProblem


@dataclass(frozen=True, slots=True)
class Submission:
    """A spec, the engine it resolves to, and the PodTemplate it names, if that exists."""

    spec: InferenceServiceSpec
    engine: ResolvedEngine
    template: Mapping[str, Any] | None = None


Check = Callable[[Submission], SpecProblem | None]


def problems_of(submission: Submission) -> tuple[SpecProblem, ...]:
    """The problems of all checks, so that a manifest can be corrected in one edit."""
    return tuple(problem for check in CHECKS if (problem := check(submission)))


def warnings_of(submission: Submission) -> tuple[SpecProblem, ...]:
    """Warnings that people should see and that keep nothing from running."""
    return tuple(warning for check in WARNINGS if (warning := check(submission)))


def engine_version_unsupported(submission: Submission) -> SpecProblem | None:
    version = submission.engine.version
    if engine_versions.minor(version) >= engine_versions.OLDEST:
        return None
    oldest = f"{engine_versions.OLDEST[0]}.{engine_versions.OLDEST[1]}.0"
    return SpecProblem(
        Reason.ENGINE_VERSION_UNSUPPORTED,
        f'spec.engine.version: "{version}" is older than {oldest}, the oldest version that Forebay supports; use '
        f"{oldest} or newer, or set the version here if the image's tag is not a vLLM version.",
    )


def flag_abbreviated(submission: Submission) -> SpecProblem | None:
    """vLLM accepts an unambiguous prefix of a flag, so `--tensor-parallel` would override Forebay's flag."""
    for flag in _extra_flags(submission):
        for owned in RESERVED_FLAGS:
            name = next((name for name in owned.names if _begins(flag, name)), None)
            if name is not None:
                return SpecProblem(
                    Reason.ENGINE_FLAG_RESERVED,
                    f'spec.engine.extraArgs: "{flag}" is short for {name}, which {owned.instead}.',
                )
    return None


def flag_unavailable(submission: Submission) -> SpecProblem | None:
    """An engine whose version does not have the flag would exit at start, after waiting for its GPU."""
    version = engine_versions.minor(submission.engine.version)
    for flag in _extra_flags(submission):
        for change in engine_versions.REMOVED_FLAGS:
            if flag == change.name and version >= change.version:
                return _unavailable(submission, flag, f"was removed in {_release(change.version)}", change.way_out)
        for change in engine_versions.ADDED_FLAGS:
            if flag == change.name and version < change.version:
                return _unavailable(submission, flag, f"was added in {_release(change.version)}", change.way_out)
    return None


def json_malformed(submission: Submission) -> SpecProblem | None:
    for flag, value in _extra_values(submission):
        if flag not in engine_versions.JSON_FLAGS or value is None:
            continue
        try:
            json.loads(value)
        except ValueError as error:
            return SpecProblem(
                Reason.ENGINE_FLAG_INVALID,
                f"spec.engine.extraArgs: {flag} is given {value[:60]!r}, which is not JSON ({error}); write it as "
                f'{flag}={{"key": "value"}}, quoted as a whole.',
            )
    return None


def format_unavailable(submission: Submission) -> SpecProblem | None:
    version = engine_versions.minor(submission.engine.version)
    for change in engine_versions.REMOVED_FORMATS:
        if version < change.version:
            continue
        if submission.spec.model.quantization == change.name:
            field = "spec.model.quantization"
        elif ("--load-format", change.name) in _extra_values(submission):
            field = "spec.engine.extraArgs: --load-format"
        else:
            continue
        return SpecProblem(
            Reason.FORMAT_UNAVAILABLE,
            f'{field}: "{change.name}" is not supported by vLLM {submission.engine.version}: it was removed in '
            f"{_release(change.version)}; {change.way_out}.",
        )
    return None


def nodes_need_own_backend(submission: Submission) -> SpecProblem | None:
    """Only the backend `mp` works on several nodes. Ray would look for a Ray cluster in each pod, and the in-process
    executor uses only one node."""
    if submission.engine.nodes == 1:
        return None
    given = next((value for flag, value in _extra_values(submission) if flag == EXECUTOR), None)
    if given in (None, "mp"):
        return None
    return SpecProblem(
        Reason.ENGINE_FLAG_INVALID,
        f'spec.engine.extraArgs: {EXECUTOR} "{given}" does not work with spec.engine.nodes '
        f"{submission.engine.nodes}; leave it out, and Forebay sets mp.",
    )


def annotation_reserved(submission: Submission) -> SpecProblem | None:
    """Forebay's own annotations are reserved: `forebay.dev/drain-started` would mark a new pod as draining."""
    metadata = (submission.template or {}).get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    name = next((name for name in sorted(annotations) if name.startswith(f"{GROUP}/")), None)
    if name is None:
        return None
    return SpecProblem(
        Reason.ANNOTATION_RESERVED,
        f'spec.pod.templateRef: the annotation "{name}" of PodTemplate "{submission.spec.pod.template_ref}" is '
        "reserved for Forebay; choose another prefix.",
    )


def template_missing(submission: Submission) -> SpecProblem | None:
    name = submission.spec.pod.template_ref
    if name is None or submission.template is not None:
        return None
    return SpecProblem(
        Reason.POD_TEMPLATE_NOT_FOUND,
        f'spec.pod.templateRef: there is no PodTemplate "{name}" in the namespace of the service; create it, or leave '
        "the field out.",
    )


def engine_version_unknown(submission: Submission) -> SpecProblem | None:
    if engine_versions.minor(submission.engine.version) <= engine_versions.NEWEST:
        return None
    return SpecProblem(
        Reason.ENGINE_VERSION_UNKNOWN,
        f'spec.engine.version: "{submission.engine.version}" is newer than {_release(engine_versions.NEWEST)}, the '
        "newest that Forebay knows; it is treated like that version.",
    )


def routes_need_own_name(submission: Submission) -> SpecProblem | None:
    if engine_versions.minor(submission.engine.version) >= engine_versions.ANY_MODEL_NAME_SINCE:
        return None
    return SpecProblem(
        Reason.ENGINE_CHECKS_MODEL_NAME,
        f'spec.engine.version: "{submission.engine.version}" accepts only namespace/name as the model name; for short '
        f"names of a ModelRoute use {_release(engine_versions.ANY_MODEL_NAME_SINCE)} or newer.",
    )


def schedule_unreadable(submission: Submission) -> SpecProblem | None:
    """Only a warning: the service runs even if one of its schedules is invalid."""
    for schedule in submission.spec.schedules:
        if fault := fault_of(schedule):
            message = f"spec.schedules[{schedule.name}].{fault}. The service runs without this schedule."
            return SpecProblem(Reason.SCHEDULE_UNREADABLE, message)
    return None


def scale_to_zero_inactive(submission: Submission) -> SpecProblem | None:
    scaling = submission.spec.scaling
    if scaling.scale_to_zero_after is None or scaling.min_replicas == 0:
        return None
    return SpecProblem(
        Reason.SCALE_TO_ZERO_INACTIVE,
        f'spec.scaling.scaleToZeroAfter: "{scaling.scale_to_zero_after}" has no effect while minReplicas is '
        f"{scaling.min_replicas}; set minReplicas to 0, or remove scaleToZeroAfter.",
    )


CHECKS: Final[tuple[Check, ...]] = (
    engine_version_unsupported,
    flag_abbreviated,
    flag_unavailable,
    json_malformed,
    format_unavailable,
    nodes_need_own_backend,
    annotation_reserved,
    template_missing,
)
WARNINGS: Final[tuple[Check, ...]] = (
    engine_version_unknown,
    routes_need_own_name,
    schedule_unreadable,
    scale_to_zero_inactive,
)


def _extra_flags(submission: Submission) -> list[str]:
    return [flag for argument in submission.spec.engine.extra_args if (flag := flag_name(argument))]


def _begins(flag: str, owned: str) -> bool:
    return flag.startswith("--") and len(flag) > len("--") and owned.startswith(flag)


def _release(version: tuple[int, int]) -> str:
    return f"vLLM {version[0]}.{version[1]}"


def _extra_values(submission: Submission) -> Iterator[tuple[str, str | None]]:
    """Flags with their values, after `=` or as the next argument; None where no value follows.

    `--flag.key value` sets one entry of a flag's JSON and not the flag's own value, so it is left out.
    """
    arguments = submission.spec.engine.extra_args
    for position, argument in enumerate(arguments):
        flag = flag_name(argument)
        name, separator, value = argument.partition("=")
        if flag is not None and "." not in name:
            yield flag, value if separator else next(iter(arguments[position + 1 : position + 2]), None)


def _unavailable(submission: Submission, flag: str, why: str, way_out: str) -> SpecProblem:
    return SpecProblem(
        Reason.ENGINE_FLAG_UNAVAILABLE,
        f'spec.engine.extraArgs: "{flag}" is not a flag of vLLM {submission.engine.version}: it {why}; {way_out}.',
    )
