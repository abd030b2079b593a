"""Ranks: the differences between the pods of a replica of several pods.

vLLM itself distributes one engine over nodes (`--nnodes`, in every version since 0.20). Each pod runs the same command
with its own `--node-rank`, and all connect to rank 0. Rank 0 serves the API. The others run `--headless`; they accept
no clients and have no `/health`, so they have no probes. Rank 0 becomes ready only after a completion that all ranks
computed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from forebay.api import labels
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.ranks_service import RENDEZVOUS_PORT, ranks_service_name
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.world.world import NodeView, Revision

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
API_SERVERS: Final = "--api-server-count"
EXECUTOR: Final = "--distributed-executor-backend"
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
OWN_ADDRESS: Final[Mapping[str, Any]] = {
    "name": "VLLM_HOST_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
"""Address at which the other ranks reach this one. Without it, vLLM guesses it from its route to the internet."""


def hostnames_of(nodes: Iterable[NodeView]) -> dict[str, str]:
    """Hostname labels of nodes, by name. A node without the label is known by its name."""
    return {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in nodes}


def shared_arguments(engine: ResolvedEngine) -> list[str]:
    """Arguments of all ranks. The alternative, Ray, would need a Ray cluster for each replica."""
    if engine.nodes == 1:
        return []
    return [
        f"--nnodes={engine.nodes}",
        f"--master-port={RENDEZVOUS_PORT}",
        f"{EXECUTOR}=mp",
    ]


def worker_template(pod: Mapping[str, Any], container: str) -> dict[str, Any]:
    """The template of ranks above 0, from that of rank 0; `container` is the engine's name."""
    containers = [_headless(entry) if entry["name"] == container else entry for entry in pod["spec"]["containers"]]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def set_rank_fields(
    spec: dict[str, Any], owner: Owner, revision: Revision, ordinal: int, rank: int, names: Sequence[str]
) -> None:
    """Change a pod's spec into that of one rank. `names` are the names of all pods of the replica, by rank."""
    subdomain = ranks_service_name(owner)
    spec["hostname"] = names[rank]
    spec["subdomain"] = subdomain
    spec["schedulingGates"] = [{"name": labels.GROUP_GATE}, *(spec.get("schedulingGates") or [])]
    spec["affinity"] = _apart(spec.get("affinity") or {}, owner, revision, ordinal)
    engine = spec["containers"][0]
    engine["args"] = [*engine["args"], f"--node-rank={rank}", f"--master-addr={names[0]}.{subdomain}"]


def _headless(container: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in container.items() if name not in (*PROBES, "ports")}
    return {**kept, "args": [*_without_api_servers(container["args"]), "--headless"]}


def _without_api_servers(arguments: Sequence[str]) -> list[str]:
    """The arguments without `--api-server-count`, which vLLM rejects together with `--headless`."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        name, given, _ = argument.partition("=")
        if skip:
            skip = False
        elif name.replace("_", "-") == API_SERVERS:
            skip = not given
        else:
            kept.append(argument)
    return kept


def _apart(affinity: dict[str, Any], owner: Owner, revision: Revision, ordinal: int) -> dict[str, Any]:
    """The affinity, extended so that no two ranks of a replica run on one node, as `engine.nodes` requires."""
    group = {labels.SERVICE_UID: owner.uid, labels.REVISION: revision.hash, labels.ORDINAL: str(ordinal)}
    term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": group}}
    against = affinity.get("podAntiAffinity") or {}
    required = [*(against.get("requiredDuringSchedulingIgnoredDuringExecution") or []), term]
    return {**affinity, "podAntiAffinity": {**against, "requiredDuringSchedulingIgnoredDuringExecution": required}}
