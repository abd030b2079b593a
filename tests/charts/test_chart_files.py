"""The chart's files agree with the code they install; rendering is tested in e2e, with helm and an API server."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
import typer
import yaml

from forebay import __version__
from forebay.cli.run.operator_command import operator
from forebay.controller.options import PortOptions
from forebay.workloads.spec.engine_arguments import PORT

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "forebay"
LARGE = 1e6
OF_THE_CHART = {
    "namespace": "watchNamespace",
    "engine-version": "engine.version",
    "engine-image": "engine.image",
    "placeholder-priority-class": "placeholders.priorityClass.name",
    "lease-namespace": "the release's namespace",
    "lease-name": "the release's name",
    "lease-identity": "the pod's name is in it by itself",
    "health-port": "the container's port",
    "metrics-port": "the container's port",
    "bind-address": "probes come from outside the pod",
    "metrics-source": "prometheus.url",
    "prometheus-url": "prometheus.url",
    "prometheus-ca-file": "prometheus.caConfigMap",
    "prometheus-token-file": "prometheus.tokenSecret",
    "kubeconfig": "the service account",
    "context": "the service account",
}
"""Flags of `forebay operator` that are not a key of `flags`, and the value that sets them instead."""


@dataclass(frozen=True)
class Flag:
    choices: frozenset[str]
    refuses: Callable[[float], bool]


def command_line() -> dict[str, Flag]:
    """The flags of `forebay operator` by name without dashes."""
    flags = {}
    for hint in get_type_hints(operator, include_extras=True).values():
        if hint is NoneType:
            continue
        kind, option = get_args(hint)
        choices = frozenset(kind) if isinstance(kind, type) and issubclass(kind, StrEnum) else frozenset()
        name = option.default  # inside Annotated, typer keeps the first name where the default would be
        flags[name.split("/")[0].removeprefix("--")] = Flag(choices, partial(_refused, option.callback))
    return flags


def _refused(check: Callable[[float], object] | None, value: float) -> bool:
    try:
        if check is not None:
            check(value)
    except typer.BadParameter:
        return True
    return False


def schema() -> dict[str, Any]:
    properties: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())["properties"]
    return properties


def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


def test_every_flag_of_the_operator_can_be_set_through_the_chart():
    assert set(schema()["flags"]["properties"]) == set(command_line()) - set(OF_THE_CHART)


@pytest.mark.parametrize("name", sorted(schema()["flags"]["properties"]))
def test_the_chart_refuses_what_the_command_line_refuses(name):
    rule, flag = schema()["flags"]["properties"][name], command_line()[name]
    least, most = rule.get("minimum", -LARGE), rule.get("maximum", LARGE)

    assert (flag.refuses(least), flag.refuses(most)) == (False, False)
    assert flag.refuses(least - 0.01) == ("minimum" in rule)
    assert flag.refuses(most + 0.01) == ("maximum" in rule)
    assert frozenset(rule.get("enum", [])) == flag.choices


def test_every_value_is_described_by_the_schema():
    def undescribed(found: dict[str, Any], described: dict[str, Any], path: str) -> list[str]:
        missing = []
        for key, value in found.items():
            if key not in described:
                missing.append(f"{path}{key}")
            elif isinstance(value, dict) and "properties" in described[key]:
                missing += undescribed(value, described[key]["properties"], f"{path}{key}.")
        return missing

    assert undescribed(values(), schema(), "") == []


def test_the_chart_carries_the_crds_that_the_models_make():
    made = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}

    assert made
    assert {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")} == made


def test_the_chart_installs_the_version_that_it_ships_with():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == __version__
    assert chart["version"] == __version__


def test_ports_are_those_of_the_operator_and_of_the_engines():
    deployment = (CHART / "templates" / "deployment.yaml").read_text()

    assert f"containerPort: {PortOptions().health}\n" in deployment
    assert f"containerPort: {PortOptions().metrics}\n" in deployment
    assert values()["networkPolicy"]["enginePorts"] == [PORT]
