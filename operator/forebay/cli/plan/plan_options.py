"""The options of `forebay plan`, and the files that they name.

`PlanOptions` holds the flags as they were typed. `read_plan_request` opens the price list, the checkpoint configs and
the recordings; what cannot be read is a `PlanOptionError` that names the flag.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml

from forebay.capacity.model.checkpoint_config import CheckpointConfig, ConfigError, read_config
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.capacity.plan.cost import PriceError, Prices, read_prices
from forebay.capacity.plan.plan_input import PlanContext
from forebay.capacity.plan.regions import Region, RegionError, read_regions
from forebay.capacity.plan.service_plan import PlanSettings
from forebay.cli.manifest_input import BadInput, on_one_line, read_yaml
from forebay.simulation.traffic.trace_file import Recording, TraceError, read_trace


class Output(StrEnum):
    """How the plan is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class Method(StrEnum):
    """`profile` shows the plan; `napkin` adds the back-of-envelope estimate and why the two differ."""

    PROFILE = "profile"
    NAPKIN = "napkin"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The flags as they were typed; no file has been opened."""

    files: tuple[str, ...]
    output: Output = Output.TABLE
    method: Method = Method.PROFILE
    details: bool | None = None
    against: str | None = None
    gpu: str | None = None
    configs: tuple[str, ...] = ()
    prices: Path | None = None
    regions: str | None = None
    traces: tuple[str, ...] = ()
    chart: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None


class PlanOptionError(Exception):
    """A flag, or the file it names, cannot be read."""

    def __init__(self, flag: str, value: object, reason: str) -> None:
        super().__init__(f"{flag} {value}: {reason}")
        self.fault = BadInput(str(value), None, flag, reason)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the options ask for, read from their files."""

    questions: PlanSettings
    recordings: dict[str, Recording]
    """By namespace/name or name of a service; the empty name stands for all other services."""

    def recording_of(self, namespace: str, name: str) -> Recording | None:
        """The recorded traffic of a service; the most specific name wins."""
        names = (f"{namespace}/{name}", name, "")
        return next((self.recordings[key] for key in names if key in self.recordings), None)


def read_plan_request(options: PlanOptions, profiles: Iterable[GivenProfile]) -> PlanRequest:
    """Read the files that the options name. Raises PlanOptionError."""
    known = PlanContext(profiles=tuple(profiles), configs=_configs(options.configs), product=options.gpu)
    return PlanRequest(
        questions=PlanSettings(context=known, prices=_prices(options.prices), regions=_regions(options.regions)),
        recordings=_recordings(options.traces),
    )


def _configs(values: Iterable[str]) -> dict[str, CheckpointConfig]:
    """By model source without its revision."""
    configs = {}
    for value in values:
        source, path = _name_and_file(value)
        try:
            config = json.loads(_text("--config", path))
            if not isinstance(config, dict):
                raise PlanOptionError("--config", path, "is not a JSON object")
            configs[source.partition("@")[0]] = read_config(config)
        except ValueError as error:
            reason = str(error) if isinstance(error, ConfigError) else f"not JSON: {on_one_line(error)}"
            raise PlanOptionError("--config", path, reason) from error
    return configs


def _prices(path: Path | None) -> Prices | None:
    if path is None:
        return None
    try:
        return read_prices(read_yaml(_text("--prices", str(path))))
    except PriceError as error:
        raise PlanOptionError("--prices", path, str(error)) from error
    except yaml.YAMLError as error:
        raise PlanOptionError("--prices", path, f"not YAML: {on_one_line(error)}") from error


def _regions(text: str | None) -> tuple[Region, ...]:
    if text is None:
        return ()
    try:
        return read_regions(text)
    except RegionError as error:
        raise PlanOptionError("--regions", text, str(error)) from error


def _recordings(values: Iterable[str]) -> dict[str, Recording]:
    recordings = {}
    for value in values:
        name, path = _name_and_file(value)
        try:
            recordings[name] = read_trace(_text("--trace", path))
        except TraceError as error:
            raise PlanOptionError("--trace", path, str(error)) from error
    return recordings


def _name_and_file(value: str) -> tuple[str, str]:
    """`NAME=FILE`; a file without a name applies to everything that no other option names."""
    name, separator, path = value.partition("=")
    return (name, path) if separator and not Path(value).exists() else ("", value)


def _text(flag: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PlanOptionError(flag, path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlanOptionError(flag, path, "is not UTF-8 text") from error
