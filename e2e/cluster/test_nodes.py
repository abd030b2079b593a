"""Loss of nodes: a drained node breaks no stream, and replicas of a dead node are replaced within a lead time."""

from __future__ import annotations

import subprocess
import time

from e2e.engines import is_ready, is_serving, name_of, pods_of, wait_for_serving
from e2e.harness.kubectl import Object
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service
from e2e.traffic import Traffic

DRAIN_SECONDS = 240.0
HELD = 40


def on_node(pods: list[Object], node: str) -> list[Object]:
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def test_a_drained_node_hands_its_replicas_over_without_a_cut_stream(forebay: Installation) -> None:
    manifest = an_inference_service("moves", forebay.namespace).replicas(4, 4).profile(EngineProfile()).lenient_slo()
    forebay.kubectl.apply(manifest.drain_timeout("120s").object)
    pods = wait_for_serving(forebay.kubectl, "moves", 4, within=120, namespace=forebay.namespace)
    node = max(forebay.nodes, key=lambda name: len(on_node(pods, name)))
    assert on_node(pods, node), f"no replica on {node}"
    traffic = Traffic(forebay.reached("moves"), "moves")
    traffic.hold(HELD, prompt_tokens=16, output_tokens=105)
    eventually(lambda: traffic.open, lambda count: count >= HELD, within=60, what=f"{HELD} streams are open")
    command = forebay.kubectl.command(
        "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={DRAIN_SECONDS:.0f}s"
    )
    try:
        drained = subprocess.run(command, capture_output=True, text=True, timeout=DRAIN_SECONDS + 30)
        assert drained.returncode == 0, drained.stderr
        left = on_node(pods_of(forebay.kubectl, "moves", forebay.namespace), node)
        assert left == []
        eventually(
            lambda: [p for p in pods_of(forebay.kubectl, "moves", forebay.namespace) if is_serving(p)],
            lambda serving: len(serving) == 4,
            within=60,
            what="4 replicas serve on the other node",
        )
    finally:
        forebay.kubectl("uncordon", node)
    records = traffic.finish(180)
    assert [record.fault for record in records if not record.whole] == []
    assert len(records) >= HELD
    forebay.delete("moves")


def test_a_dead_nodes_replicas_are_replaced(forebay: Installation) -> None:
    node = min(forebay.nodes, key=forebay.operators_on)
    manifest = an_inference_service("survives", forebay.namespace).replicas(2, 2).profile(EngineProfile(a=0.01))
    spread = [{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]
    manifest.object["spec"]["pod"] = {"topologySpreadConstraints": spread}
    forebay.kubectl.apply(manifest.object)
    pods = wait_for_serving(forebay.kubectl, "survives", 2, within=120, namespace=forebay.namespace)
    lost = {name_of(pod) for pod in on_node(pods, node)}
    assert lost, f"no replica on {node}"
    forebay.cluster.kill_node(node)
    killed = time.monotonic()
    try:
        eventually(
            lambda: [p for p in pods_of(forebay.kubectl, "survives", forebay.namespace) if is_ready(p)],
            lambda ready: len(ready) == 2 and not on_node(ready, node),
            within=90,
            what="both replicas Ready on the node that lives",
        )
        print(f"replaced {time.monotonic() - killed:.1f} s after the node died")
    finally:
        forebay.cluster.start_node(node)
    # Not before its engines serve again: one that starts does not hear that it is to end.
    wait_for_serving(forebay.kubectl, "survives", 2, within=120, namespace=forebay.namespace)
