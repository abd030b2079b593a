"""Quantities that mean the same amount have the same text."""

import pytest

from forebay.workloads.spec.quantities import canonical
from forebay.workloads.spec.resolve import spec_hash
from tests.builders.world import a_spec


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("8", "8"),
        ("8000m", "8"),
        ("8.0", "8"),
        ("0.5", "500m"),
        ("500m", "500m"),
        ("0.0005", "0.5m"),
        ("64Gi", "64Gi"),
        ("65536Mi", "64Gi"),
        ("68719476736", "64Gi"),
        ("1.5Gi", "1536Mi"),
        ("64G", "62500000Ki"),
        ("1k", "1000"),
        ("0", "0"),
        ("0Gi", "0"),
    ],
)
def test_canonical_quantities(quantity, expected):
    assert canonical(quantity) == expected
    assert canonical(expected) == expected


def hash_with(cpu: str, memory: str) -> str:
    spec = a_spec().model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec.setdefault("pod", {})["resources"] = {"cpu": cpu, "memory": memory}
    return spec_hash(type(a_spec()).model_validate(spec), None)


def test_quantities_of_the_same_amount_start_no_rollout():
    assert hash_with("8000m", "65536Mi") == hash_with("8", "64Gi")
    assert hash_with("9", "64Gi") != hash_with("8", "64Gi")
