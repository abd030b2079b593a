import subprocess
import sys

import pytest
from typer.testing import CliRunner

from forebay import __version__
from forebay.cli.main import app

HEAVY = ("kopf", "kubernetes", "pydantic", "aiohttp", "prometheus_client")


def modules_after(code: str) -> set[str]:
    """Top-level packages that a fresh interpreter has imported after running `code`."""
    program = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(answer.stdout.splitlines()[-1].split())


def test_the_version_is_printed():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"forebay {__version__}\n")


def test_the_command_line_itself_loads_no_cluster_library():
    assert modules_after("import forebay.cli.main").isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["operator", "crds", "plan", "fit", "explain", "top"])
def test_every_command_has_help(command: str):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: forebay" in result.output


def test_completion_is_offered_for_bash():
    result = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="forebay")
    assert "_FOREBAY_COMPLETE=complete_bash" in result.output


def test_as_kubectl_plugin_it_calls_itself_kubectl_forebay():
    program = (
        "import sys; sys.argv = ['/usr/bin/kubectl-forebay', 'top', '--help'];from forebay.cli.main import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage: kubectl forebay top" in answer.stdout
