"""The same input gives the same plan, byte for byte, in every process and at any time."""

import os
import subprocess
import sys
from pathlib import Path

from forebay.planner.memory import ReplicaFailure, ServiceMemory, State
from forebay.planner.planner import plan
from forebay.world.world import World
from tests.builders.world import NOW, a_node, a_pod, a_revision, a_service, a_world, pods_of, signals_of

ROOT = Path(__file__).parents[2]


def a_varied_world() -> tuple[World, State]:
    """Services, nodes, orphans, failures and a rollout: everything that a plan keeps in sets or mappings."""
    names = ("chat", "code", "draft", "embed")
    services = [a_service(name, min_replicas=4, max_replicas=6, wanted=a_revision("bbbb")) for name in names]
    pods = [pod for service in services for pod in pods_of(service, 2, revision="aaaa")]
    pods += [a_pod(service, 7, owner_uid=None, revision="bbbb", node="node-3") for service in services]
    pods += [a_pod(service, 8, drain_started_at=NOW - 30, node="node-4") for service in services]
    cordoned = ("node-1", "node-5", "node-9")
    nodes = [a_node(f"node-{index}", cordoned=f"node-{index}" in cordoned) for index in range(12)]
    stored = {service.uid: (a_revision("aaaa", number=1), a_revision("bbbb", number=2)) for service in services}
    failures = tuple(ReplicaFailure(f"pod-{index}", "bbbb", f"node-{index % 8}", NOW - 60) for index in range(16))
    state = State(since=NOW - 3600, services={service.uid: ServiceMemory(failures=failures) for service in services})
    return a_world(*services, pods=pods, nodes=nodes, signals=signals_of(pods, running=3), revisions=stored), state


def test_the_same_input_gives_the_same_plan_in_every_process():
    """Sets of strings have a different order in each process."""
    ask = "from tests.planner.test_purity import plan_text; print(plan_text())"
    path = os.pathsep.join((str(ROOT / "operator"), str(ROOT)))
    plans = {
        subprocess.run(
            [sys.executable, "-c", ask],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert plans == {f"{plan_text()}\n"}


def plan_text() -> str:
    """A plan and the state after it, as text."""
    world, state = a_varied_world()
    done, after = plan(world, state, NOW)
    assert [share.error for share in done.services] == [None] * len(world.services)
    assert sum(len(share.actions) for share in done.services) > 8
    return repr((done, after))
