"""Writes the report of a simulation for a terminal: inputs, policies, and the decisions of Forebay."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

MOST_DECISIONS = 12


def table_of(document: dict[str, Any]) -> Iterator[Table | str]:
    """The parts of the report of one service, in order."""
    inputs = document["inputs"]
    promise = inputs["promise"]
    yield (
        f"[bold]{document['service']}[/bold]  {inputs['requests']} requests in {_span(inputs['seconds'])} of "
        f"{inputs['trace']}, seed {inputs['seed']}"
    )
    if document["model"] == "fluid":
        yield "  fluid model: the flow of each 2.5 seconds is played, not every request"
    for step in inputs["method"]:
        yield f"  {step}"
    yield (
        f"  promised: first token within {_ms(promise['time_to_first_token'])}, {_ms(promise['inter_token_latency'])} "
        f"per token; {inputs['bounds'][0]} to {inputs['bounds'][1]} replicas; a cold start takes "
        f"{inputs['coldStartSeconds']['ready_seconds']:.0f} s; the true engine differs from its profile by up to "
        f"{100 * inputs['offBy']:.0f} %"
    )
    yield _policies(document)
    forebay = document["policies"][0]
    if forebay["impossible"]:
        yield f"{_percent(forebay['impossible'])} of the requests could not be served in time even by an idle replica."
    if forebay["decisions"]:
        yield _decisions(forebay["decisions"])


def _policies(document: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("POLICY", "TARGET"):
        table.add_column(title, no_wrap=True)
    for title in (
        "IN TIME",
        "GPU-H",
        "× ORACLE",
        "TTFT P50",
        "P95",
        "P99",
        "TOKEN P95",
        "SHED",
        "FAILED",
        "CHANGES/DAY",
        "MOST",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for policy in document["policies"]:
        first, token = policy["timeToFirstToken"], policy["interTokenLatency"]
        table.add_row(
            policy["name"],
            policy["target"],
            _percent(policy["attainment"]),
            f"{policy['gpuHours']:.2f}",
            "" if policy["oracleRatio"] is None else f"{policy['oracleRatio']:.2f}",
            _ms(first["p50"]),
            _ms(first["p95"]),
            _ms(first["p99"]),
            _ms(token["p95"]),
            str(policy["shed"]),
            str(policy["failed"] + policy["unfinished"] + policy["refused"]),
            f"{policy['replicaChangesPerDay']:.0f}",
            str(policy["mostReplicas"]),
        )
    return table


def _decisions(decisions: list[dict[str, Any]]) -> Table:
    shown = decisions[:MOST_DECISIONS]
    more = len(decisions) - len(shown)
    caption = f"and {more} more (-o json has them)" if more else None
    table = Table(box=None, pad_edge=False, title="Decisions", title_justify="left", caption=caption)
    for title in ("AT", "REPLICAS", "RULE"):
        table.add_column(title, no_wrap=True)
    table.add_column("BECAUSE", overflow="fold")
    for decision in shown:
        table.add_row(_span(decision["at"]), str(decision["desired"]), decision["rule"], decision["because"])
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _ms(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{1000 * seconds:.0f} ms"


def _span(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60:02d} min" if hours else f"{rest // 60} min {rest % 60:02d} s"
