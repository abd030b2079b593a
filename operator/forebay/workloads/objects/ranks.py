"""Ranks: what differs between the pods of a replica of several.

vLLM spreads one engine over nodes by itself (`--nnodes`, in every version since 0.20): each pod runs the same command
with its own `--node-rank`, and they meet at rank 0's address. Rank 0 serves the API; the others run `--headless`,
listen to no client and have no `/health`, so they have no probes either: rank 0 becomes ready only by a completion that
went through all of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from forebay.api import labels
from forebay.workloads.objects.child_objects import RENDEZVOUS_PORT, ranks_service_name
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.world.world import Revision

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
API_SERVERS: Final = "--api-server-count"
EXECUTOR: Final = "--distributed-executor-backend"
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
OWN_ADDRESS: Final[Mapping[str, Any]] = {
    "name": "VLLM_HOST_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}
"""What a rank tells the others to reach it by; left alone, vLLM guesses it from its route to the internet."""


def shared_arguments(engine: ResolvedEngine) -> list[str]:
    """The same for every rank. Ray, the other way to span nodes, needs a cluster of its own around each replica."""
    if engine.nodes == 1:
        return []
    return [
        f"--nnodes={engine.nodes}",
        f"--master-port={RENDEZVOUS_PORT}",
        f"{EXECUTOR}=mp",
    ]


def worker_template(pod: Mapping[str, Any], container: str) -> dict[str, Any]:
    """The template of ranks above 0, from that of rank 0; `container` is the engine's name."""
    containers = [_headless(each) if each["name"] == container else each for each in pod["spec"]["containers"]]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def set_rank_fields(
    spec: dict[str, Any], owner: Owner, revision: Revision, ordinal: int, rank: int, names: Sequence[str]
) -> None:
    """Turn a pod's spec into that of one rank of a replica; `names` are of all its pods, by rank."""
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
    """vLLM refuses a number of API servers where it is to run none."""
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
    """No two ranks of a replica on one node: that is what `engine.nodes` says."""
    group = {labels.SERVICE_UID: owner.uid, labels.REVISION: revision.hash, labels.ORDINAL: str(ordinal)}
    term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": group}}
    against = affinity.get("podAntiAffinity") or {}
    required = [*(against.get("requiredDuringSchedulingIgnoredDuringExecution") or []), term]
    return {**affinity, "podAntiAffinity": {**against, "requiredDuringSchedulingIgnoredDuringExecution": required}}
