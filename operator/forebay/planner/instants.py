"""Times as people and the API read them."""

from datetime import UTC, datetime


def rfc3339(at: float) -> str:
    """Unix seconds as Kubernetes writes a Time, to the second."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
