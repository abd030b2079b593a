"""Queries to Prometheus, written so that no value can change what is asked.

A label's value stands inside a string literal, and inside a regular expression inside that literal when several are
wanted. Both layers are escaped here and nowhere else (the client library's own label arguments escape neither).

Grammar: Prometheus, "Querying basics", string literals (double-quoted, escapes as in Go); RE2 syntax for `=~`.
"""

import re
from collections.abc import Iterable

LONGEST_ALTERNATIVES = 1500
"""Bytes of one `=~` matcher. A query travels in the URL, and proxies refuse long ones; beyond this nothing is matched
on and the answer is narrowed down by its reader."""

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_IN_LITERAL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def is_label_name(text: str) -> bool:
    return _LABEL_NAME.fullmatch(text) is not None


def literal(value: str) -> str:
    """The value as a string literal."""
    return f'"{value.translate(_IN_LITERAL)}"'


def equals(label: str, value: str) -> str:
    return f"{label}={literal(value)}"


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher for any of the values; one that matches every labelled series when the values are too many to send."""
    pattern = "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in sorted(set(values)))
    if len(pattern.encode()) > LONGEST_ALTERNATIVES:
        return f'{label}!=""'
    return f"{label}=~{literal(pattern)}"


def last_seconds(name: str, matchers: Iterable[str], seconds: int) -> str:
    """Every sample of the series, each with the time it was scraped at. An instant query would repeat a value for five
    minutes after its scrape under the time of the question."""
    return f"{name}{{{','.join(matchers)}}}[{seconds}s]"
