"""The division gives what a slow reference gives, unit by unit and by bisection."""

import pytest
from hypothesis import given

from tests.builders.tenants import FLAT, NESTED, Case, granted
from tests.sharing.reference_division import by_level, by_units


@given(FLAT)
def test_units_as_given_one_by_one(case: Case):
    assert granted(case.units()) == by_units(case)


@given(NESTED)
def test_units_of_groups_as_given_one_by_one(case: Case):
    assert granted(case.units()) == by_units(case)


@given(FLAT)
def test_amounts_as_by_bisection(case: Case):
    assert granted(case.amounts()) == pytest.approx(by_level(case), abs=1e-9)


@given(NESTED)
def test_amounts_of_groups_as_by_bisection(case: Case):
    assert granted(case.amounts()) == pytest.approx(by_level(case), abs=1e-9)
