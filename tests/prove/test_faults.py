"""The planted faults fit the project as it is, so that `make prove` fails for no other reason than a weak test."""

from collections import Counter

import pytest

from prove.copies import ROOT, must_fit, must_have_guards
from prove.fault import Fault
from prove.faults import FAULTS
from tests.docs.documents import section, table


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_and_its_guards_are_there(fault: Fault):
    must_fit(fault, ROOT)
    must_have_guards(fault, ROOT)


def test_names_are_told_apart():
    assert [name for name, times in Counter(fault.name for fault in FAULTS).items() if times > 1] == []
    assert all(fault.area and fault.name != fault.area for fault in FAULTS)


def test_the_page_lists_every_fault_with_its_claim():
    rows = table(section("proofs.md", "The faults"))
    assert [(name.strip("`"), claim) for name, claim in rows] == [(fault.name, fault.claim) for fault in FAULTS]
