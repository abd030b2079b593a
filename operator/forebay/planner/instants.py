"""Times as people and the API read them."""

from forebay.api.instants import rfc3339

__all__ = ["rfc3339"]
