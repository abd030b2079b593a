"""Forebay: a Kubernetes operator for LLM serving that decides, acts and shares in one place."""

__version__ = "0.1.0"
