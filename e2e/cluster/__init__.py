"""Suites that need real nodes."""
