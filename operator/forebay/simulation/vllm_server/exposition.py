"""A fast writer of Prometheus' text format: a page of hundreds of series takes a fraction of a millisecond.

The page is a template with a `%s` for each value. While the series stay the same, the template is kept and filled again
at each scrape. Numbers are formatted as `prometheus_client` formats them (1624.0, 1.79596319769e+09), so that parsers
are tested against that format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from forebay.simulation.engine.histogram import BucketHistogram

Labels = Mapping[str, str]
VALUE_SLOT: Final = "%s"


def sample_value(value: float) -> str:
    """The text of a value: always a float, with an exponent from a million on."""
    text = repr(float(value))
    whole, _, rest = text.partition(".")
    if len(whole) < 7 or "e" in text:
        return text
    digits = (whole[1:] + rest).rstrip("0")
    return f"{whole[0]}{'.' if digits else ''}{digits}e+{len(whole) - 1:02d}"


def histogram_values(histogram: BucketHistogram) -> list[str]:
    """The values for `PageTemplate.histogram`: cumulative bucket counts, the total count, and the sum."""
    values = [f"{cumulative}.0" for cumulative in accumulate(histogram.counts)]
    values.append(values[-1])
    values.append(sample_value(histogram.total))
    return values


class PageTemplate:
    """The lines of one metrics page, in order, with slots for values."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def template(self) -> str:
        """The text of the page, with a `%s` for every value that was left open."""
        return "\n".join(self._lines) + "\n"

    def family(self, name: str, kind: str, about: str) -> None:
        """Add the HELP and TYPE lines of a metric family."""
        self._lines.append(f"# HELP {name} {about}")
        self._lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, series: Labels, value: str = VALUE_SLOT) -> None:
        """Add one series, with its value or a slot for it."""
        rendered = ",".join(f'{label}="{_escaped(series[label])}"' for label in sorted(series))
        line = f"{name}{{{rendered}}}" if rendered else name
        self._lines.append(f"{line} {value}")

    def created(self, name: str, series: Iterable[Labels], time: float) -> None:
        """Add the `_created` family of a counter or histogram, which a single process exports."""
        self.family(f"{name}_created", "gauge", "When the series began.")
        for labels in series:
            self.sample(f"{name}_created", labels, sample_value(time))

    def histogram(self, name: str, labels: Labels, bounds: Sequence[float]) -> None:
        """Add slots for the buckets, the count and the sum of one series; `histogram_values` fills them."""
        for bound in (*map(sample_value, bounds), "+Inf"):
            self.sample(f"{name}_bucket", {**labels, "le": bound})
        self.sample(f"{name}_count", labels)
        self.sample(f"{name}_sum", labels)


def _escaped(value: str) -> str:
    """A label value, escaped for its quotes; a percent sign is doubled because the page is a template."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"').replace("%", "%%")
