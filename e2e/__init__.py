"""Proof on real API servers and real nodes; nothing in here is imported by the operator."""
