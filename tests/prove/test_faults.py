"""The planted faults fit the current project, so that `make prove` fails only because of a weak test."""

from collections import Counter

import pytest

from prove.copies import ROOT, must_fit
from prove.fault import Fault
from prove.faults import FAULTS
from prove.proof import Located

MOST_QUICK = 12


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_and_its_guards_are_there(fault: Fault):
    must_fit(fault, ROOT)
    assert Located.of(fault, ROOT).guards


def test_fault_names_are_unique():
    assert [name for name, times in Counter(fault.name for fault in FAULTS).items() if times > 1] == []
    assert all(fault.area and fault.name != fault.area for fault in FAULTS)


def test_quick_faults_need_no_cluster():
    quick = [fault for fault in FAULTS if fault.quick]
    assert 0 < len(quick) <= MOST_QUICK
    assert [fault.name for fault in quick if Located.of(fault, ROOT).is_slow] == []
