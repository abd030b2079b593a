"""The whole text of `forebay explain` in situations that people ask about, as golden files to review."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.cli.explain.explain_service import explanation
from tests.builders.cluster import Cluster
from tests.cli.explain.scenarios import SITUATIONS, reading_of

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_the_explanation_matches_its_golden_file(situation: Callable[[], Cluster], request: pytest.FixtureRequest):
    cluster = situation()
    text = "\n".join(explanation(reading_of(cluster), cluster.now)) + "\n"
    path = GOLDEN / f"{situation.__name__}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing; run pytest --update-golden and review it"
    assert text == path.read_text(), f"{path} differs; run pytest --update-golden and review it"
