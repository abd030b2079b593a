"""Planted faults: proof that the tests can fail. `make prove` runs them."""
