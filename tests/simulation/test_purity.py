"""Limits on imports: the engine stays free of clocks and randomness, and engine-sim stays light."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forebay.simulation
from tests.simulation.vllm_server.servers import SOURCE_ROOT

PACKAGE = Path(forebay.simulation.__file__).parent
PURE = (
    *("engine/engine_stats", "engine/engine_steps", "engine/histogram", "engine/kv_blocks", "engine/replica_engine"),
    *("vllm_server/exposition", "vllm_server/http_counts", "vllm_server/openai_protocol", "vllm_server/vllm_metrics"),
)
FORBIDDEN = {"aiohttp", "asyncio", "datetime", "os", "random", "secrets", "socket", "threading", "time", "uuid"}


@pytest.mark.parametrize("module", PURE)
def test_no_clock_and_no_chance(module):
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.partition(".")[0] for name in imported} & FORBIDDEN


def test_engine_sim_needs_aiohttp_alone():
    """Sixteen of them start on two cores; what the operator needs would cost each a second and 60 MB."""
    heavy = ["pydantic", "kubernetes", "kopf", "yaml", "typer", "rich", "prometheus_client"]
    code = f"import sys, forebay.simulation.vllm_server.engine_sim; print([m for m in {heavy!r} if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE_ROOT)}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
