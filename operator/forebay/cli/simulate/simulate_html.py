"""Writes the report of a simulation as one self-contained page: picture, table, decisions, and the JSON."""

import base64
import json
from html import escape
from typing import Any

from forebay.cli.simulate.simulate_chart import picture

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2430; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #dde3ea; text-align: right; vertical-align: top; }
th:first-child, td:first-child, td.text { text-align: left; }
img { max-width: 100%; }
p.note { color: #556; }
"""


def html_of(documents: list[dict[str, Any]]) -> str:
    """The page as HTML. Raises ChartError without matplotlib."""
    body = "\n".join(_service(document) for document in documents)
    data = json.dumps(documents).replace("</", "<\\/")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Forebay: simulation</title>'
        f"<style>{STYLE}</style></head><body>\n{body}\n"
        f'<script type="application/json" id="report">{data}</script>\n</body></html>\n'
    )


def _service(document: dict[str, Any]) -> str:
    inputs = document["inputs"]
    image = base64.b64encode(picture([document])).decode()
    method = "; ".join(inputs["method"])
    digest = f", sha256 {inputs['sha256']}" if inputs["sha256"] else ""
    note = (
        f"{inputs['requests']} requests in {inputs['seconds'] / 60:.0f} minutes of {escape(inputs['trace'])}{digest}; "
        f"seed {inputs['seed']}; {document['model']} model. {escape(method)}"
    )
    return "\n".join(
        [
            f"<h1>{escape(document['service'])}</h1>",
            f'<p class="note">{note}</p>',
            f'<img alt="replicas, waiting requests and first tokens over time" src="data:image/png;base64,{image}">',
            _policies(document),
            "<h2>Decisions</h2>",
            _decisions(document["policies"][0]),
        ]
    )


def _policies(document: dict[str, Any]) -> str:
    rows = []
    for policy in document["policies"]:
        first, token = policy["timeToFirstToken"], policy["interTokenLatency"]
        ratio = "" if policy["oracleRatio"] is None else f"{policy['oracleRatio']:.2f}"
        cells = (
            f"{100 * policy['attainment']:.2f} %",
            f"{policy['gpuHours']:.2f}",
            ratio,
            f"{1000 * first['p50']:.0f}",
            f"{1000 * first['p95']:.0f}",
            f"{1000 * first['p99']:.0f}",
            f"{1000 * token['p95']:.1f}",
            str(policy["shed"]),
            str(policy["failed"] + policy["unfinished"] + policy["refused"]),
            f"{policy['replicaChangesPerDay']:.0f}",
        )
        name = f"{policy['name']} ({policy['target']})"
        rows.append(f"<tr><td>{escape(name)}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = (
        "policy",
        "in time",
        "GPU-hours",
        "× oracle",
        "TTFT p50 ms",
        "p95",
        "p99",
        "token p95 ms",
        "shed",
        "failed",
        "changes per day",
    )
    head = "".join(f"<th>{title}</th>" for title in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _decisions(policy: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{decision['at'] / 60:.1f} min</td><td>{decision['desired']}</td>"
        f'<td class="text">{escape(decision["rule"])}</td><td class="text">{escape(decision["because"])}</td></tr>'
        for decision in policy["decisions"]
    )
    head = "<tr><th>at</th><th>replicas</th><th>rule</th><th>because</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"
