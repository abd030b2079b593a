"""Prometheus: queries a Prometheus that scrapes the engines."""
