"""Ports and addresses that the cluster's parts listen on: loopback and the cluster's own bridge, nothing else."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The first address of the range, which the API server assigns to the Service `kubernetes`."""

PORTS = range(18000, 28000)
"""Below the ports that Linux gives to outgoing connections (32768 and up) and below node ports (30000 and up): a
port that is free when it is chosen is then still free when its server starts."""

_reserved: set[int] = set()


def free_ports(count: int, address: str = LOOPBACK) -> list[int]:
    """`count` different ports that nothing listens on and that no other process of this user has reserved.

    They stay reserved for this process until it ends, so a server may start late, or again on the same port.
    """
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if _reserve(port) and _is_free(address, port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{count} free ports wanted between {PORTS.start} and {PORTS.stop}, found {len(found)}")


def _reserve(port: int) -> bool:
    """True once per port and process, unless another living process has reserved it."""
    if port in _reserved:
        return False
    try:
        # One byte of the file stands for one port. The kernel drops the lock when the process ends.
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _reserved.add(port)
    return True


@cache
def _reservations() -> int:
    """Descriptor of the file that all of this user's processes lock; never closed, which would drop the locks."""
    path = Path(tempfile.gettempdir()) / f"forebay-ports-{os.getuid()}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
