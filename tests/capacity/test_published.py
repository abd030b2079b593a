"""Published measurements against the replica model, and the page that shows them."""

import pytest

from bench.capacity import PAGE, broken, page
from bench.published_rows import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_model_matches_each_published_row(row: Row):
    """Fitted rows within 5 %, predicted ones within 25 %."""
    assert row.model == pytest.approx(row.published, rel=row.within)


def test_no_row_exceeds_its_stated_error():
    assert broken() == []


def test_the_page_shows_what_is_computed_today():
    """`python -m bench.capacity` writes the page. The simulated table is not checked here, because it takes longer."""
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, ("kv-cache", "published", "roofline")) == text
