"""Draws a simulation: replicas, waiting requests and time to first token, for every policy on one time line."""

import io
from pathlib import Path
from typing import Any

from forebay.cli.charts import ChartError, new_figure

MOST_POLICIES = 6
"""The most policies in one picture; more could not be distinguished."""
COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#5f6c7b")


def draw(documents: list[dict[str, Any]], target: Path) -> None:
    """Write the picture. Raises ChartError."""
    try:
        target.write_bytes(picture(documents))
    except OSError as error:
        raise ChartError(f"{target} cannot be written: {error}") from error


def picture(documents: list[dict[str, Any]]) -> bytes:
    """The picture as PNG. Raises ChartError."""
    figure = new_figure(11, 7.2 * len(documents))
    axes = figure.subplots(3 * len(documents), 1, squeeze=False)
    for index, document in enumerate(documents):
        _service(document, [row[0] for row in axes[3 * index : 3 * index + 3]])
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _service(document: dict[str, Any], axes: list[Any]) -> None:
    replicas, waiting, first = axes
    promise = document["inputs"]["promise"]["time_to_first_token"]
    for policy, colour in zip(document["policies"][:MOST_POLICIES], COLOURS, strict=False):
        line = policy["timeline"]
        minutes = [at / 60 for at in line["at"]]
        width = 2.0 if policy is document["policies"][0] else 1.2
        replicas.step(minutes, line["serving"], where="post", color=colour, linewidth=width, label=policy["name"])
        waiting.plot(minutes, line["waiting"], color=colour, linewidth=width)
        first.plot(minutes, [max(1e-3, value) for value in line["firstToken"]], color=colour, linewidth=width)
    replicas.set_title(document["service"], loc="left")
    replicas.set_ylabel("serving replicas")
    replicas.set_ylim(bottom=0)
    replicas.legend(loc="upper left", ncols=3, fontsize=8, frameon=False)
    waiting.set_ylabel("requests waiting")
    waiting.set_yscale("symlog", linthresh=10)
    waiting.set_ylim(bottom=0)
    first.set_ylabel("first token, p95 (s)")
    first.set_yscale("log")
    first.axhline(promise, color="black", linewidth=0.8, linestyle="--")
    first.annotate(
        "promised", (0.995, promise), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8
    )
    first.set_xlabel("minutes")
    for axis in axes:
        axis.grid(alpha=0.25)
        axis.margins(x=0)
