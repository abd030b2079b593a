"""Files, links, flags with their defaults, and series that the documents name exist."""

import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from forebay.cli.main import app
from forebay.cli.run.operator_command import operator
from forebay.cluster.client.server_clock import ServerClock
from forebay.controller.loop_health import LoopHealth
from forebay.controller.operator_metrics import Metrics
from forebay.telemetry.scrape_statistics import ScrapeTally
from tests.docs.documents import DOCS, PAGES, ROOT, code_spans, section, table

PLACEMENT = {"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless"}
VLLM_FLAGS = {"--enable-lora", "--max-num-batched-tokens", "--shutdown-timeout", *PLACEMENT}
"""Flags of the engine that pages mention."""
OWN_PAGES = [page for page in PAGES if page.name != "api.md"]
"""api.md is made from the models."""


def flags() -> dict[str, str]:
    """Flags of `forebay operator` with their defaults as text; empty where there is none."""
    hints, found = get_type_hints(operator, include_extras=True), {}
    for name, parameter in inspect.signature(operator).parameters.items():
        _, option = get_args(hints[name])
        found[option.default.split("/")[0]] = "" if parameter.default is None else f"{parameter.default}"
    return found


def every_flag() -> set[str]:
    """Of all commands of `forebay`."""
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return {option for sub in command.commands.values() for parameter in sub.params for option in parameter.opts}


def test_flags_and_their_defaults():
    rows = table(section("operations.md", "Flags of `forebay operator`"))

    assert {row[0].strip("`"): row[1].strip("`") for row in rows} == flags()


@pytest.mark.parametrize("page", OWN_PAGES, ids=lambda page: page.name)
def test_no_page_names_a_flag_that_does_not_exist(page):
    named = {span for span in code_spans(page.read_text()) if re.fullmatch(r"--[a-z0-9-]+", span)}

    assert named - every_flag() - flags().keys() - {"--no-leader-election"} - VLLM_FLAGS == set()


def test_series_of_the_operator():
    metrics = Metrics(LoopHealth(60.0, started_at=0.0), lambda: 0.0)
    metrics.show_clock(ServerClock())
    metrics.show_sources(dict, ScrapeTally(5.0).snapshot)
    rows = table(section("operations.md", "Metrics of the operator"))

    assert {name for row in rows for name in code_spans(row[0])} == {
        family.name for family in metrics.registry.collect()
    }


@pytest.mark.parametrize("page", OWN_PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = [span for span in code_spans(page.read_text()) if re.match(r"(operator|charts|docs|examples|e2e)/", span)]

    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", OWN_PAGES, ids=lambda page: page.name)
def test_every_link_has_a_target(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_linked_from_another():
    architecture = (DOCS / "architecture.md").read_text()

    assert [str(page.relative_to(DOCS)) for page in PAGES if f"]({page.relative_to(DOCS)})" not in architecture] == [
        "architecture.md"
    ]


def test_the_architecture_names_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text()
    source = ROOT / "operator" / "forebay"
    folders = {path.parent.relative_to(source) for path in source.rglob("*.py")} - {Path()}
    unnamed = [str(folder) for folder in folders if f"`{folder}/`" not in page]
    parents = {str(folder.parent) for folder in folders}
    assert sorted(name for name in unnamed if name not in parents) == []
