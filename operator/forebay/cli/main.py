"""`forebay`, also as `kubectl forebay`: one command per job."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from forebay import __version__
from forebay.cli import shared_options as kube
from forebay.cli.crds_command import crds
from forebay.cli.plan.fit_command import fit
from forebay.cli.plan.plan_command import plan
from forebay.cli.run.operator_command import operator
from forebay.cli.simulate.simulate_command import simulate

app = typer.Typer(
    name="forebay",
    help="Turns InferenceServices into serving pods, keeps them ahead of demand, and says why.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

_RAW = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The simulators answer to vLLM's command line, so their arguments go through unread."""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"forebay {__version__}")
        raise typer.Exit


@app.callback()
def forebay(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turns InferenceServices into serving pods, keeps them ahead of demand, and says why."""


app.command("operator")(operator)
app.command("crds")(crds)
app.command("plan")(plan)
app.command("fit")(fit)
app.command("simulate")(simulate)


@app.command("explain")
def explain(
    service: Annotated[str, typer.Argument(help="Name of an InferenceService.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="What was decided then: a time such as 2026-03-01T12:00:00Z, or an age such as 10m.",
            show_default=False,
        ),
    ] = None,
    namespace: kube.Namespace = None,
    kubeconfig: kube.Kubeconfig = None,
    context: kube.Context = None,
) -> None:
    """Say why a service has the replicas it has, what would change that, and what comes next."""
    from forebay.cli.explain.explain_decision import NotAMomentError
    from forebay.cli.explain.explain_service import explain as show

    try:
        code = show(service, namespace, kubeconfig, context, at)
    except NotAMomentError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    raise typer.Exit(code)


@app.command("wake")
def wake(
    service: Annotated[str, typer.Argument(help="Name of an InferenceService.")],
    namespace: kube.Namespace = None,
    kubeconfig: kube.Kubeconfig = None,
    context: kube.Context = None,
) -> None:
    """Start a replica of a service that has scaled to zero."""
    from forebay.cli.wake_command import wake as ask

    raise typer.Exit(ask(service, namespace, kubeconfig, context))


@app.command("top")
def top(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this namespace. Default: all.", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between readings.", min=0.5)] = 2.0,
    kubeconfig: kube.Kubeconfig = None,
    context: kube.Context = None,
) -> None:
    """Watch all services: replicas, load, and the rule that decided."""
    from forebay.cli.explain.top import top as show

    raise typer.Exit(show(namespace, kubeconfig, context, once=once, interval_seconds=interval))


@app.command("engine-sim", context_settings=_RAW, add_help_option=False)
def engine_sim(context: typer.Context) -> None:
    """Stand in for one vLLM server without a GPU; takes `vllm serve`'s arguments."""
    _run_raw("engine-sim", context.args)


@app.command("fleet-sim", context_settings=_RAW, add_help_option=False)
def fleet_sim(context: typer.Context) -> None:
    """Give pods without a network live metrics and traffic from simulated engines."""
    _run_raw("fleet-sim", context.args)


def _run_raw(command: str, arguments: list[str]) -> None:
    module = import_module(f"forebay.simulation.{command.replace('-', '_')}")
    getattr(module, command.replace("-", "_"))(arguments)


def main() -> None:
    """Entry point of the console scripts."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["engine-sim"], ["fleet-sim"]):
        _run_raw(arguments[0], arguments[1:])
        return
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl forebay" if plugin else "forebay")


if __name__ == "__main__":
    main()
