"""The planted faults fit the project as it is: `make prove` is long, and what rots is to be seen without it."""

import pytest

from prove.copies import ROOT, must_fit, must_have_guards
from prove.fault import Fault
from prove.faults import FAULTS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_fits_and_has_its_guards(fault: Fault):
    must_fit(fault, ROOT)
    must_have_guards(fault, ROOT)


def test_the_page_lists_them_all_in_their_order():
    page = (ROOT / "docs" / "proofs.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{fault.name}` | {fault.claim} |" for fault in FAULTS]
