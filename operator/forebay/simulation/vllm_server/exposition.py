"""Prometheus' text format, written so that a page of hundreds of series costs a fraction of a millisecond.

A page is laid out with holes where values go; a layout that does not change is kept and filled again at each scrape.
Numbers look as `prometheus_client` writes them (1624.0, 1.79596319769e+09), which parsers must bear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from forebay.simulation.engine.histogram import BucketHistogram

Labels = Mapping[str, str]
HOLE: Final = "%s"


def number(value: float) -> str:
    """A sample's value: a float always, with an exponent from a million on."""
    text = repr(float(value))
    whole, _, rest = text.partition(".")
    if len(whole) < 7 or "e" in text:
        return text
    digits = (whole[1:] + rest).rstrip("0")
    return f"{whole[0]}{'.' if digits else ''}{digits}e+{len(whole) - 1:02d}"


def counts(histogram: BucketHistogram) -> list[str]:
    """Cumulative counts, their end, and the sum: the values for `Page.histogram`."""
    values = [f"{reached}.0" for reached in accumulate(histogram.counts)]
    values.append(values[-1])
    values.append(number(histogram.total))
    return values


class Page:
    """The lines of one scrape, in order."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def template(self) -> str:
        """The page with a hole for every value that was left open."""
        return "\n".join(self._lines) + "\n"

    def family(self, name: str, kind: str, about: str) -> None:
        """The two comment lines that open a family."""
        self._lines.append(f"# HELP {name} {about}")
        self._lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, series: Labels, value: str = HOLE) -> None:
        """One series, with its value or a hole for it."""
        rendered = ",".join(f'{label}="{_escaped(series[label])}"' for label in sorted(series))
        line = f"{name}{{{rendered}}}" if rendered else name
        self._lines.append(f"{line} {value}")

    def created(self, name: str, series: Iterable[Labels], time: float) -> None:
        """When the series of a counter or histogram began; a family of its own, as single processes export it."""
        self.family(f"{name}_created", "gauge", "When the series began.")
        for labels in series:
            self.sample(f"{name}_created", labels, number(time))

    def histogram(self, name: str, labels: Labels, bounds: Sequence[float]) -> None:
        """Holes for the buckets, the count and the sum of one series, as `counts` fills them."""
        for bound in (*map(number, bounds), "+Inf"):
            self.sample(f"{name}_bucket", {**labels, "le": bound})
        self.sample(f"{name}_count", labels)
        self.sample(f"{name}_sum", labels)


def _escaped(value: str) -> str:
    """A label value between its quotes; a percent sign is doubled, since the page is a template."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"').replace("%", "%%")
