"""Builds PromQL queries in which no label value can change the meaning of the query.

A label value is written into a string literal or, when several are wanted, into a regular expression inside a string
literal. Both layers are escaped here and nowhere else; the label arguments of the client library escape neither.

Grammar: Prometheus, "Querying basics", string literals (double-quoted, escapes as in Go); RE2 syntax for `=~`.
"""

import re
from collections.abc import Iterable

LONGEST_ALTERNATIVES = 1500
"""The longest pattern of a `=~` matcher in bytes. A query is part of the URL, and proxies refuse long URLs. A longer
pattern is left out, and the reader of the answer selects what it needs."""

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_IN_LITERAL = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def is_label_name(text: str) -> bool:
    return _LABEL_NAME.fullmatch(text) is not None


def literal(value: str) -> str:
    """The value as a PromQL string literal."""
    return f'"{value.translate(_IN_LITERAL)}"'


def equals(label: str, value: str) -> str:
    return f"{label}={literal(value)}"


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher for any of the values; when the pattern is too long, one that matches every series with the label."""
    pattern = "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in sorted(set(values)))
    if len(pattern.encode()) > LONGEST_ALTERNATIVES:
        return f'{label}!=""'
    return f"{label}=~{literal(pattern)}"


def last_seconds(name: str, matchers: Iterable[str], seconds: int) -> str:
    """A range vector of all samples of the last `seconds`, each with the time of its scrape.

    An instant query would repeat a value for five minutes after its scrape, with the time of the query.
    """
    return f"{name}{{{','.join(matchers)}}}[{seconds}s]"
