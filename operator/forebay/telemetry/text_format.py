"""A reader of the Prometheus text format that parses only the wanted series, straight from bytes.

A vLLM answer has about 600 lines, and a fleet gives hundreds of answers per second; a general parser would cost more
CPU than the planner. One compiled expression finds the lines of the wanted series, and only these are parsed. They are
parsed strictly: a truncated, repeated or ambiguous line raises `MalformedMetrics`, because a wrong number is worse than
none. Lines of other series are not checked.

Format: text format version 0.0.4 (lines end in LF, `name{label="value",…} value [timestamp in ms]`, `#` comments).
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

MAX_MEMOIZED_LABELS = 256
"""The longest label block (bytes) whose parsed labels are cached. A pod repeats its label blocks at every scrape, but
the 2 KB of `cache_config_info` are not worth caching."""


class MalformedMetrics(ValueError):  # noqa: N818 - reads as a sentence where it is raised and caught
    """The answer violates the text format, or it was truncated."""


class SeriesReading(NamedTuple):
    """One series and its value. Readings share their labels, so do not change them."""

    labels: Mapping[str, str]
    value: float


Readings = Mapping[str, list[SeriesReading]]

_BLANK = rb"[ \t]*+"
_SAMPLE = re.compile(
    _BLANK
    + rb"(?:\{(?P<labels>.*)\}"  # greedy: the last brace of a line closes the labels, whatever their values hold
    + _BLANK
    + rb")?(?P<value>[^ \t\r{}]++)(?:[ \t]++(?P<timestamp>-?[0-9]++))?[ \t\r]*+",
)
_LABEL = rb'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]++|\\.)*+)"'
_LABELS = re.compile(rb"[ \t]*+(?:%s[ \t]*+(?:,[ \t]*+%s[ \t]*+)*+(?:,[ \t]*+)?+)?+" % (_LABEL, _LABEL))
_EACH_LABEL = re.compile(_LABEL)
_ESCAPE = re.compile(r'\\[\\n"]')
_UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


class TextReader:
    """Reads the series with these names; the `_bucket`, `_sum` and `_count` of a histogram are separate names."""

    def __init__(self, names: Iterable[str]) -> None:
        alternatives = b"|".join(re.escape(name.encode()) for name in sorted(names)) or rb"(?!)"
        self._lines = re.compile(rb"\n[ \t]*+(%s)(?=[ \t{\r\n])([^\n]*+)" % alternatives)

    def read(self, body: bytes) -> Readings:
        """The readings by name, in the order of the answer; missing names are absent. Raises MalformedMetrics."""
        if not body:
            return {}
        if not body.endswith(b"\n"):
            last_line = body[body.rfind(b"\n") + 1 :][:80]
            raise MalformedMetrics(f"the response is truncated: its last line {_quoted(last_line)} has no end")
        readings: dict[bytes, list[SeriesReading]] = {}
        series_read: set[tuple[bytes, bytes | None]] = set()
        for name, rest in self._lines.findall(b"\n" + body):
            labels, reading = _sample(name, rest)
            if (name, labels) in series_read:
                raise MalformedMetrics(f"{_quoted(name + rest)} is a second value of the same series")
            series_read.add((name, labels))
            readings.setdefault(name, []).append(reading)
        return {name.decode(): values for name, values in readings.items()}


def _sample(name: bytes, rest: bytes) -> tuple[bytes | None, SeriesReading]:
    match = _SAMPLE.fullmatch(rest)
    if match is None:
        raise MalformedMetrics(f"{_quoted(name + rest)} is not a series with a value")
    block, value = match["labels"], match["value"]
    try:
        number = float(value)
    except ValueError:
        raise MalformedMetrics(f"{_quoted(value)} of {_quoted(name)} is not a number") from None
    if b"_" in value:  # Python reads 1_0 as ten; the format does not
        raise MalformedMetrics(f"{_quoted(value)} of {_quoted(name)} is not a number")
    if not block:
        return block, SeriesReading({}, number)
    parse = _memoized_labels if len(block) <= MAX_MEMOIZED_LABELS else _labels
    return block, SeriesReading(parse(block), number)


def _labels(block: bytes) -> Mapping[str, str]:
    if _LABELS.fullmatch(block) is None:
        raise MalformedMetrics(f"{_quoted(block)} is not a list of labels")
    pairs = _EACH_LABEL.findall(block)
    try:
        labels = {name.decode(): _unescape(value.decode()) for name, value in pairs}
    except UnicodeDecodeError:
        raise MalformedMetrics(f"{_quoted(block)} is not UTF-8") from None
    if len(labels) != len(pairs):
        raise MalformedMetrics(f"{_quoted(block)} contains a label twice")
    return labels


_memoized_labels = lru_cache(maxsize=4096)(_labels)


def _unescape(value: str) -> str:
    return _ESCAPE.sub(lambda match: _UNESCAPED[match[0]], value) if "\\" in value else value


def _quoted(text: bytes) -> str:
    return repr(text[:120].decode(errors="replace"))
