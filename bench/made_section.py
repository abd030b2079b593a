"""Sections of a page that a benchmark makes, between two comments; the rest of the page is written by hand."""

from __future__ import annotations

import re


def markers(name: str, module: str) -> tuple[str, str]:
    """The comments before and after the section of this name, which that module makes."""
    return f"<!-- {name}: made by python -m {module} -->", f"<!-- end of {name} -->"


def with_section(text: str, name: str, module: str, content: str) -> str:
    """The text of a page with new content in a section. Raises SystemExit unless there is one place for it."""
    begin, end = markers(name, module)
    made = f"{begin}\n\n{content}\n\n{end}"
    text, count = re.subn(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: made, text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{begin}: {count} places for the table {name} on its page; there must be one")
    return text
