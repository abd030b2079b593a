"""Builders of the views that peers get."""

from forebay.simulation.peers.peer_view import PeerReplica, PeerView


def replicas(count: int, *, waiting: float = 0, running: float = 0, kv: float = 0.0, itl: float | None = None):
    """`count` ready replicas, each under the same load."""
    return tuple(
        PeerReplica(f"pod-{index}", waiting, running, kv, first_token_seconds=None, inter_token_seconds=itl)
        for index in range(count)
    )


def a_peer_view(
    now: float = 0.0, ready=(), *, wanted: int | None = None, starting: int = 0, rate: float = 0.0
) -> PeerView:
    """A view of a service whose requests have 500 prompt and 200 answer tokens."""
    return PeerView(
        now=now,
        wanted=len(ready) + starting if wanted is None else wanted,
        ready=ready,
        starting=starting,
        requests_per_second=rate,
        prompt_tokens=500,
        output_tokens=200,
    )
