"""Tests on real API servers and real nodes; the operator imports nothing from here."""
