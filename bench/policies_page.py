"""Generates the page of the policy benchmark from its results alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.policies_picture import picture_name

INTRODUCTION = """\
# Benchmarks: Forebay and other systems' scaling rules

`python -m bench.policies` generates this page from `bench/results/`; nothing in it is written by hand.
[The page on simulation](simulation.md) describes what is played and how. All policies get the same arrivals, lengths,
cold starts and router. The true engine differs from the profile that all policies plan with by up to 20 % in each
coefficient, drawn anew for each seed.

*In time* is the share of all offered requests whose first token came within 500 ms and whose mean time between tokens
was within 40 ms; requests that were shed, failed or unfinished count as late. *At 25 ms* is the same with a tighter
limit between tokens, which no policy was told to keep. *Of possible* leaves out requests that even an idle replica
could not have served in time. GPU-hours include starting and terminating pods. All figures but *worst seed* are means
over the seeds.

Rules marked (tuned) play with the best setting of a grid: of the settings that keep 99 % in time the one with the
fewest GPU-hours, and where none does the cheapest within 0.1 points of the setting that keeps most. They are tuned on
other traffic than the traffic that judges: the first third of a recording, or the same evening a week before. A tuned
rule that keeps 99 % for fewer GPU-hours than Forebay, but fewer requests in time, also plays with the next more careful
settings of its grid, on the traffic that judges, until it keeps as much as Forebay (matched). The oracle knows the
future and aims at 99.5 % in each window.
"""
DRAWN = (
    "This traffic is no recording: its arrivals are drawn from ServeGen's client models, and its lengths are Azure's."
)
CORRECTIONS: dict[str, tuple[str, ...]] = {
    "A": (
        (
            "Correction from later runs, which are not in the table: at another setting of its grid, HPA on KV 3 %, a "
            "peer keeps more for less: 99.36 % in time for 39.9 GPU-hours. Forebay keeps 99.20 % for 41.0."
        ),
    ),
    "B": (
        (
            "Correction from later runs, which are not in the table: three rules, at settings of their own grids, "
            "keep 99.4 % in time for at most 1 % more GPU-hours than Forebay."
        ),
        DRAWN,
    ),
    "B-weeks": (DRAWN,),
}
"""By suite: what later runs have refuted, or what the table does not say."""
REFUTED = ("A", "B")
"""Suites where settings that are not in the table do better than Forebay, or about as well."""
NOBODY = "No peer kept as many requests in time with as few GPU-hours as Forebay."
IN_THIS_TABLE = "In this table no peer kept as many requests in time with as few GPU-hours as Forebay."
SHOWN = 0.85
"""Policies that keep fewer in time on average are left out of the robustness table."""
WANTED = 0.99
"""The attainment to which peers are tuned. Below it, GPU-hours are not compared."""


Row = dict[str, Any]


def page(results: Path, target: Path) -> None:
    """Write the page: one section per suite that has results."""
    played = [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]
    suites = [_suite(result) for result in played if "suite" in result]
    variants = [_robustness(json.loads(path.read_text())) for path in sorted(results.glob("robustness/*.json"))]
    target.write_text("\n".join([INTRODUCTION, *suites, *variants]))


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: f"{100 * row[name]:.2f} %"


def _recovery(row: Row) -> str:
    seconds = row["recovery"]
    return f"{seconds:.0f} s" if isinstance(seconds, float) else str(seconds)


COLUMNS: dict[str, Callable[[Row], str]] = {
    "policy": lambda row: f"**{row['name']}**" if row["name"] == "Forebay" else row["name"],
    "setting": lambda row: row["target"],
    "in time": _share("attainment"),
    "worst seed": _share("worst"),
    "at 25 ms": _share("strict"),
    "of possible": _share("ofPossible"),
    "GPU-hours": lambda row: f"{row['gpuHours']:.2f}",
    "× oracle": lambda row: f"{row['oracleRatio']:.2f}",
    "TTFT p99": lambda row: f"{row['firstTokenP99']:.2f} s",
    "changes a day": lambda row: f"{row['changesPerDay']:.0f}",
    "windows warm": lambda row: f"{row['windowsMet']} of {row['windows']}",
    "shed": lambda row: f"{row['shed']:,}",
    "in time again after": _recovery,
}


def _columns(rows: list[Row]) -> Iterator[str]:
    """The columns that have values in this suite."""
    for name in COLUMNS:
        empty = {
            "at 25 ms": rows[0]["strict"] is None,
            "windows warm": not any(row["windows"] for row in rows),
            "shed": not any(row["shed"] for row in rows),
            "in time again after": rows[0]["recovery"] is None,
        }
        if not empty.get(name):
            yield name


def _suite(played: dict[str, Any]) -> str:
    inputs = played["runs"][0]["inputs"]
    rows = sorted(played["summary"], key=lambda row: (-row["attainment"], row["gpuHours"]))
    digest = f", sha256 `{inputs['sha256'][:16]}…`" if inputs["sha256"] else ""
    seeds = len(played["seeds"])
    floor = inputs["windowReplicas"]
    window = (
        f" The scheduled window's floor is {floor} replicas, the median of what the same peak needed a week before."
        if floor
        else ""
    )
    played_on = (
        f"{inputs['requests']:,} requests in {inputs['seconds'] / 60:.0f} minutes of {inputs['trace']}{digest}; "
        f"{seeds} seed{'s' * (seeds != 1)}; a cold start takes {inputs['coldStartSeconds']['ready_seconds']:.0f} s. "
        f"{'; '.join(inputs['method'])}.{window}{_impossible(rows[0]['impossible'])}"
    )
    columns = list(_columns(rows))
    table = [" | ".join(COLUMNS[name](row) for name in columns) for row in rows]
    lines = [f"## {played['suite']}: {played['says']}", "", played_on, ""]
    lines += [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *(f"| {line} |" for line in table)]
    outside = [tuning["rule"] for tuning in played["tunings"] if not tuning["insideGrid"]]
    if outside:
        lines += ["", f"The best setting is at the edge of the grid for: {', '.join(outside)}."]
    lines += ["", *(f"- {line}" for line in _corrected(played["suite"], verdicts(rows)))]
    lines += ["", f"![attainment against GPU-hours](../bench/results/{picture_name(played['suite'])})", ""]
    return "\n".join(lines)


def _corrected(suite: str, sentences: Iterable[str]) -> Iterator[str]:
    """The corrections of a suite, then the verdicts of its table."""
    yield from CORRECTIONS.get(suite, ())
    for sentence in sentences:
        yield IN_THIS_TABLE if suite in REFUTED and sentence == NOBODY else sentence


def _robustness(played: dict[str, Any]) -> str:
    """The section of a robustness run: attainment and GPU-hours by variant and policy."""
    by_policy: dict[str, dict[str, list[Row]]] = {}
    for row in played["rows"]:
        by_policy.setdefault(row["name"], {}).setdefault(row["variant"], []).append(row)
    mean = {name: fmean(row["attainment"] for rows in of.values() for row in rows) for name, of in by_policy.items()}
    shown = [name for name in by_policy if name == "Forebay" or mean[name] >= SHOWN]
    others = ", ".join(name for name in by_policy if name not in shown) or "none"
    says = (
        f"In time, the worst of {played['seeds']} seeds in brackets, and GPU-hours; the {played['model']} model. One "
        "thing differs at a time; otherwise a cold start takes 120 s and the engine matches its profile. Policies that "
        f"keep less than {100 * SHOWN:.0f} % on average are left out: {others}."
    )
    lines = [
        f"## Other cold starts and engines: {played['says']}",
        "",
        says,
        "",
        f"| what differs | {' | '.join(shown)} |",
        "|" + "---|" * (len(shown) + 1),
    ]
    for variant in by_policy["Forebay"]:
        cells = [_cell(by_policy[name][variant]) for name in shown]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _cell(rows: list[Row]) -> str:
    shares = [100 * row["attainment"] for row in rows]
    return f"{fmean(shares):.1f} % ({min(shares):.1f}) / {fmean(row['gpuHours'] for row in rows):.1f}"


def _impossible(share: float) -> str:
    return f" Even an idle replica could not have served {100 * share:.2f} % of the requests in time." if share else ""


def _names(rows: list[Row]) -> str:
    return ", ".join(f"{row['name']} ({row['target']})" for row in rows)


def verdicts(rows: list[Row]) -> Iterator[str]:
    """Sentences that name the peers that did better than Forebay, and in which figure."""
    ours = next(row for row in rows if row["name"] == "Forebay")
    others = [row for row in rows if row["name"] not in ("Forebay", "oracle")]
    attainment, hours = ours["attainment"], ours["gpuHours"]
    both = [row for row in others if row["attainment"] >= attainment and row["gpuHours"] <= hours]
    if both:
        yield f"As good as Forebay or better in both figures: {_names(both)}."
    else:
        yield NOBODY
    more = [row for row in others if row["attainment"] > attainment and row not in both]
    if more:
        yield f"More in time, for more GPU-hours: {_names(more)}."
    less = cheaper(rows)
    if less:
        yield f"{100 * WANTED:.0f} % in time for fewer GPU-hours, and less in time than Forebay: {_names(less)}."
    sooner = [row for row in others if _seconds(row["recovery"]) < _seconds(ours["recovery"])]
    if sooner:
        yield f"In time again sooner after the crowd arrived: {_names(sooner)}."


def cheaper(rows: list[Row]) -> list[Row]:
    """Peers that attain `WANTED` for fewer GPU-hours than Forebay, with fewer requests in time."""
    ours = next(row for row in rows if row["name"] == "Forebay")
    others = [row for row in rows if row["name"] != "oracle" and WANTED <= row["attainment"] < ours["attainment"]]
    return [row for row in others if row["gpuHours"] < ours["gpuHours"]]


def _seconds(recovery: object) -> float:
    return recovery if isinstance(recovery, float) and isfinite(recovery) else float("inf")
