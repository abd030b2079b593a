"""`docs/proofs.md` lists the planted faults."""

import re

from prove.__main__ import row
from prove.faults import FAULTS
from tests.docs.documents import section, table


def test_the_page_lists_every_fault_with_its_claim_and_its_guards():
    lines = [line for line in section("proofs.md", "The faults").splitlines() if line.startswith("| `")]
    assert lines == [row(fault) for fault in FAULTS]


def test_earlier_faults_refer_to_existing_faults():
    names = {fault.name for fault in FAULTS}
    rows = table(section("proofs.md", "Appendix: the faults of the first list"))
    told = [what for _, what in rows]
    assert [what for what in told if not re.match(r"kept|merged into|dropped", what)] == []
    assert {name for what in told for name in re.findall(r"`([a-z-]+\.[a-z0-9-]+)`", what)} - names == set()
