"""Figures for commands that draw.

matplotlib is an extra (`pip install 'forebay[charts]'`), and slow to import, so it is loaded only when a figure is
wanted.
"""

from typing import Any


class ChartError(Exception):
    """Why no chart can be drawn, as one sentence."""


def new_figure(width: float, height: float) -> Any:
    """A figure of this many inches that needs no display. Raises ChartError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ChartError("A chart needs matplotlib; install it with: pip install 'forebay[charts]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
