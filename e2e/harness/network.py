"""The nodes' network: one bridge that pods, nodes and the API server share, on this machine only.

Nothing listens on, or sends to, an address outside loopback and this bridge; pods have no way out.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

from e2e.harness.privileged import run

BRIDGE = "forebay0"
NETWORK = ipaddress.ip_network("10.244.0.0/16")
GATEWAY = "10.244.0.1"
"""The bridge's first address: the API server, the DNS server and the first node answer here."""
PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))


def node_address(index: int) -> str:
    """Address of the node with this index, from 0."""
    return str(NETWORK[1 + index])


def pod_range(index: int) -> tuple[str, str]:
    """First and last pod address of a node, 250 each; the first 256 addresses belong to nodes."""
    first = 256 * (index + 1)
    return str(NETWORK[first + 1]), str(NETWORK[first + 250])


def set_up(nodes: int) -> None:
    """Creates the bridge with one address per node; existing parts are kept."""
    if BRIDGE not in _links():
        run("ip", "link", "add", BRIDGE, "type", "bridge")
    for index in range(nodes):
        run("ip", "address", "replace", f"{node_address(index)}/{NETWORK.prefixlen}", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    _switch("net/ipv4/ip_forward")
    # A reply between two pods of the bridge must pass the rules that translated its request.
    _switch("net/bridge/bridge-nf-call-iptables")


def tear_down() -> None:
    """Removes the bridge, the pod links that are still attached to it, and the Service rules."""
    links = _links()
    for name in [name for name, master in links.items() if master == BRIDGE]:
        run("ip", "link", "delete", name, check=False)
    if BRIDGE in links:
        run("ip", "link", "delete", BRIDGE)
    for family, table in PROXY_TABLES:
        run("nft", "delete", "table", family, table, check=False)


def write_cni(folder: Path, node: str, index: int, leases: Path) -> None:
    """The pod network of one node: a range of its own in the shared subnet, address leases in `leases`."""
    first, last = pod_range(index)
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": False,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(leases),
            "ranges": [[{"subnet": str(NETWORK), "rangeStart": first, "rangeEnd": last, "gateway": GATEWAY}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "10-forebay.conflist").write_text(
        json.dumps({"cniVersion": "0.4.0", "name": f"forebay-{node}", "plugins": [bridge]})
    )


def left_over() -> list[str]:
    """Descriptions of what `tear_down` would remove."""
    found = [f"network link {name}" for name, master in _links().items() if BRIDGE in (name, master)]
    tables = run("nft", "list", "tables", check=False)
    return found + [
        f"nftables table {family} {table}" for family, table in PROXY_TABLES if f"{family} {table}" in tables
    ]


def _links() -> dict[str, str]:
    """Name of every network link of this machine, with its bridge, if any."""
    return {link["ifname"]: link.get("master", "") for link in json.loads(run("ip", "-json", "link", "show"))}


def _switch(name: str) -> None:
    switch = Path("/proc/sys") / name
    if switch.exists() and switch.read_text().strip() != "1":
        switch.write_text("1")
