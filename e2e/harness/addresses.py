"""Ports and addresses that the cluster's parts listen on: loopback and the cluster's own bridge, nothing else."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The first address of the range, which the API server takes for the Service `kubernetes`."""

PORTS = range(18000, 28000)
"""Below the ports that Linux gives to outgoing connections (32768 and up) and below node ports (30000 and up): a
port that is free when it is chosen is then still free when its server starts, unless another harness draws the same.
"""


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """`count` different ports that nothing listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if _is_free(address, port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{count} free ports wanted between {PORTS.start} and {PORTS.stop}, found {len(found)}")


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
