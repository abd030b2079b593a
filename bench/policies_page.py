"""The page and the pictures of the policy benchmark, made from its results alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INTRODUCTION = """\
# Benchmarks: Forebay beside other systems' scaling rules

Made by `python -m bench.policies` from `bench/results/`; nothing here is written by hand. What is played, and how, is
on [the page on simulation](simulation.md): the same arrivals, lengths, cold starts and router for everybody; an engine
that is off from the profile everybody plans with by up to 20 % in each coefficient, drawn anew for each seed.

*In time* is the share of all offered requests whose first token came within 500 ms and whose mean time between tokens
was within 40 ms; shed, failed and unfinished ones have missed. *Of possible* leaves out what even an idle replica could
not have served in time. GPU-hours count starting and ending pods. Rules marked (tuned) play with the best setting of a
grid, chosen on the first third of the recording and judged on the rest, as all are.
"""


def page(results: Path, target: Path) -> None:
    """One section per suite that has been played."""
    suites = [_suite(json.loads(path.read_text())) for path in sorted(results.glob("*.json"))]
    target.write_text("\n".join([INTRODUCTION, *suites]))


def _suite(played: dict[str, Any]) -> str:
    inputs = played["runs"][0]["inputs"]
    rows = sorted(played["summary"], key=lambda row: (-row["attainment"], row["gpuHours"]))
    digest = f", sha256 `{inputs['sha256'][:16]}…`" if inputs["sha256"] else ""
    played_on = (
        f"{inputs['requests']:,} requests in {inputs['seconds'] / 60:.0f} minutes of {inputs['trace']}{digest}; "
        f"{len(played['seeds'])} seeds; a start takes {inputs['coldStartSeconds']['ready_seconds']:.0f} s. "
        f"{'; '.join(inputs['method'])}."
    )
    lines = [
        f"## {played['suite']}: {played['says']}",
        "",
        played_on,
        "",
        "| policy | setting | in time | worst seed | of possible | GPU-hours | × oracle | TTFT p99 | changes a day |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = f"**{row['name']}**" if row["name"] == "Forebay" else row["name"]
        lines.append(
            f"| {name} | {row['target']} | {100 * row['attainment']:.2f} % | {100 * row['worst']:.2f} % | "
            f"{100 * row['ofPossible']:.2f} % | {row['gpuHours']:.2f} | {row['oracleRatio']:.2f} | "
            f"{row['firstTokenP99']:.2f} s | {row['changesPerDay']:.0f} |"
        )
    outside = [tuning["rule"] for tuning in played["tunings"] if not tuning["insideGrid"]]
    if outside:
        lines += ["", f"At the edge of its grid was the best setting of: {', '.join(outside)}."]
    lines += ["", _beaten_by(rows), "", f"![attainment against GPU-hours](../bench/results/{played['suite']}.png)", ""]
    return "\n".join(lines)


def _beaten_by(rows: list[dict[str, Any]]) -> str:
    """Who was better than Forebay in both, said plainly."""
    ours = next(row for row in rows if row["name"] == "Forebay")
    better = [
        f"{row['name']} ({row['target']})"
        for row in rows
        if row["name"] not in ("Forebay", "oracle")
        and row["attainment"] >= ours["attainment"]
        and row["gpuHours"] <= ours["gpuHours"]
    ]
    if not better:
        return "No peer kept as many requests in time with as few GPU-hours as Forebay."
    return f"As good as Forebay or better in both figures: {', '.join(better)}."


def picture(rows: list[dict[str, Any]], title: str, target: Path) -> None:
    """Attainment against GPU-hours, with the front of those that nobody beats in both."""
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for row in rows:
        ours = row["name"] == "Forebay"
        colour = "#1b6ca8" if ours else "#5f6c7b" if row["name"] == "oracle" else "#d1495b"
        axis.scatter(row["gpuHours"], 100 * row["attainment"], s=70 if ours else 30, color=colour, zorder=3)
        axis.annotate(
            row["name"],
            (row["gpuHours"], 100 * row["attainment"]),
            fontsize=7,
            xytext=(4, 3),
            textcoords="offset points",
        )
    axis.set_xlabel("GPU-hours")
    axis.set_ylabel("requests in time (%)")
    axis.set_title(title, loc="left", fontsize=11)
    axis.grid(alpha=0.25)
    figure.savefig(target, dpi=110, metadata={"Software": None})
