"""The entry point of `forebay`, also as `kubectl forebay`, and the list of its commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from forebay import __version__
from forebay.cli.crds_command import crds
from forebay.cli.key_command import key
from forebay.cli.plan.fit_command import fit
from forebay.cli.plan.plan_command import plan
from forebay.cli.run.operator_command import operator
from forebay.cli.share.share_command import share
from forebay.cli.shared_options import Context, Kubeconfig, Namespace
from forebay.cli.simulate.simulate_command import simulate

app = typer.Typer(
    name="forebay",
    help="Turns InferenceServices into serving pods, keeps them ahead of demand, and says why.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)

_RAW = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The simulators parse their own arguments, which are those of vLLM, so typer passes them on as they are."""


def _show_version(requested: bool) -> None:
    if requested:
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
app.command("share")(share)
app.add_typer(key, name="key")


@app.command("explain")
def explain(
    service: Annotated[str, typer.Argument(help="Name of an InferenceService.")],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Explain an earlier decision: a time such as 2026-03-01T12:00:00Z, or an age such as 10m.",
            show_default=False,
        ),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a service has the replicas it has, what would change that, and what comes next."""
    from forebay.cli.explain.explain_decision import TimeFormatError
    from forebay.cli.explain.explain_service import explain as run

    try:
        code = run(service, namespace, kubeconfig, context, at)
    except TimeFormatError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    raise typer.Exit(code)


@app.command("wake")
def wake(
    service: Annotated[str, typer.Argument(help="Name of an InferenceService.")],
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Start a replica of a service that has scaled to zero."""
    from forebay.cli.wake_command import wake as run

    raise typer.Exit(run(service, namespace, kubeconfig, context))


@app.command("top")
def top(
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only this namespace. Default: all.", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    interval: Annotated[float, typer.Option("--interval", help="Seconds between readings.", min=0.5)] = 2.0,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Watch all services: replicas, load, and the rule that decided."""
    from forebay.cli.explain.top import top as run

    raise typer.Exit(run(namespace, kubeconfig, context, once=once, interval_seconds=interval))


@app.command("engine-sim", context_settings=_RAW, add_help_option=False)
def engine_sim(context: typer.Context) -> None:
    """Stand in for one vLLM server without a GPU; takes `vllm serve`'s arguments."""
    _run_engine_sim(context.args)


@app.command("fleet-sim", context_settings=_RAW, add_help_option=False)
def fleet_sim(context: typer.Context) -> None:
    """Give pods without a network live metrics and traffic from simulated engines."""
    _run_fleet_sim(context.args)


def _run_engine_sim(arguments: list[str]) -> None:
    from forebay.simulation.vllm_server.engine_sim import engine_sim as run

    run(arguments)


def _run_fleet_sim(arguments: list[str]) -> None:
    from forebay.simulation.kwok_fleet.fleet_sim import fleet_sim as run

    run(arguments)


_SIMULATORS = {"engine-sim": _run_engine_sim, "fleet-sim": _run_fleet_sim}


def main() -> None:
    """Entry point of the console scripts. The simulators start without typer, which would read their arguments."""
    command, *arguments = sys.argv[1:] or [""]
    if command in _SIMULATORS:
        _SIMULATORS[command](arguments)
        return
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    app(prog_name="kubectl forebay" if plugin else "forebay")


if __name__ == "__main__":
    main()
