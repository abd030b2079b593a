"""Parses the documents into parts that tests can compare with the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def headings(page: str) -> list[str]:
    """Texts of the headings of the second level."""
    return re.findall(r"(?m)^## (.+)$", (DOCS / page).read_text())


def section(page: str, heading: str) -> str:
    """The text under a heading of the second level."""
    return (DOCS / page).read_text().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def table(text: str) -> list[list[str]]:
    """The cells of the rows of the first table, without its head."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def code_spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)
