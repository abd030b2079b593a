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


@pytest.mark.parametrize("command", ["operator", "crds", "plan", "fit", "share", "explain", "top"])
def test_every_command_has_help(command: str):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: forebay" in result.output


def test_completion_is_offered_for_bash(monkeypatch: pytest.MonkeyPatch):
    """The shell is fixed here, since the shell that runs the tests differs and may be missing."""
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))
    result = CliRunner().invoke(app, ["--show-completion", "bash"], prog_name="forebay")
    assert "_FOREBAY_COMPLETE=complete_bash" in result.output


def test_as_kubectl_plugin_it_calls_itself_kubectl_forebay():
    program = (
        "import sys; sys.argv = ['/usr/bin/kubectl-forebay', 'top', '--help'];from forebay.cli.main import main; main()"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage: kubectl forebay top" in answer.stdout


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "forebay.cli.main", *arguments], capture_output=True, text=True)


def test_arguments_of_engine_sim_go_through_unread():
    answer = run("engine-sim", "serve", "some/model", "--no-such-flag=1", "-x")
    assert answer.returncode == 2
    assert "unrecognized arguments: --no-such-flag=1 -x" in answer.stderr


def test_engine_sim_is_started_without_the_operators_libraries():
    code = (
        "sys.argv = ['forebay', 'engine-sim']\n"
        "from forebay.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 2"
    )
    assert modules_after(code).isdisjoint({"kopf", "kubernetes", "pydantic"})


def test_help_of_fleet_sim_is_its_own():
    answer = run("fleet-sim", "--help")
    assert answer.returncode == 0
    assert "--requests-per-second" in answer.stdout


def test_a_command_that_does_not_exist_is_refused_with_a_pointer_to_help():
    answer = run("opreator")
    assert answer.returncode == 2
    assert "No such command 'opreator'" in answer.stderr
