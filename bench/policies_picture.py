"""Draws a suite: attainment against GPU-hours, with the Pareto front.

The axis of attainment is logarithmic in the share of late requests, since from 99 to 99.5 % half of them disappear.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox

COLOURS: Final = {"Forebay": "#1b6ca8", "oracle": "#5f6c7b"}
OTHERS: Final = "#d1495b"
TICKS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LEAST_LATE: Final = 1e-4
OFFSETS: Final = tuple((x, y) for y in (3, -9, 12, -18, 21, -27, 30, -36, -45, -54, -63, -72) for x in (6, -6))
"""Offsets of a label from its point, in typographic points; the first that is free is taken."""

Row = dict[str, Any]


def picture_name(suite: str) -> str:
    return f"{suite}.png"


def picture(rows: list[Row], title: str, folder: Path, suite: str) -> None:
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.margins(0.14, 0.08)
    axis.set_yscale("log")
    axis.invert_yaxis()
    front = _front(rows)
    axis.step(
        [row["gpuHours"] for row in front],
        [_late(row) for row in front],
        where="post",
        color="#c9ced6",
        linewidth=1.2,
        zorder=1,
    )
    for row in rows:
        ours = row["name"] == "Forebay"
        colour = COLOURS.get(row["name"], OTHERS)
        axis.scatter(row["gpuHours"], _late(row), s=70 if ours else 30, color=colour, zorder=3)
    axis.set_xlabel("GPU-hours")
    axis.set_ylabel("requests in time")
    axis.set_yticks([share for share in TICKS if share >= 0.8 * min(map(_late, rows))], minor=False)
    axis.yaxis.set_major_formatter(lambda late, _: f"{100 * (1 - late):g} %")
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_title(title, loc="left", fontsize=10, wrap=True)
    axis.grid(alpha=0.25)
    figure.draw_without_rendering()
    _label(axis, rows)
    figure.savefig(folder / picture_name(suite), dpi=110, metadata={"Software": None})


def _late(row: Row) -> float:
    """The share of late requests, at least `LEAST_LATE`, since a logarithmic scale has no 0."""
    return max(1 - float(row["attainment"]), LEAST_LATE)


def _front(rows: list[Row]) -> list[Row]:
    """The Pareto front, cheapest first: no other policy costs less and keeps more."""
    front: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["gpuHours"], -row["attainment"])):
        if not front or row["attainment"] > front[-1]["attainment"]:
            front.append(row)
    return front


def _label(axis: Axes, rows: list[Row]) -> None:
    """Place every name where it covers no other name, the best policy first."""
    taken: list[Bbox] = []
    for row in sorted(rows, key=lambda row: -row["attainment"]):
        at = (row["gpuHours"], _late(row))
        for x, y in OFFSETS:
            label = axis.annotate(
                row["name"],
                at,
                fontsize=7,
                xytext=(x, y),
                textcoords="offset points",
                ha="left" if x > 0 else "right",
                arrowprops={"arrowstyle": "-", "color": "#c9ced6", "linewidth": 0.6} if abs(y) > 9 else None,
                fontweight="bold" if row["name"] == "Forebay" else "normal",
            )
            label.get_window_extent()  # places the label; the box it returns includes the line to the point
            box = Text.get_window_extent(label)
            if (x, y) == OFFSETS[-1] or not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()
