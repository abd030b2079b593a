"""Scale-downs, rollouts and a killed operator under load: every stream is complete."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, field

from e2e.engines import (
    has_condition,
    is_draining,
    is_serving,
    metric,
    name_of,
    open_streams,
    pods_of,
    wait_for_serving,
)
from e2e.harness.waiting import eventually
from e2e.installation import Installation
from e2e.manifests import EngineProfile, an_inference_service
from e2e.pod_history import PodHistory
from e2e.traffic import Traffic, faults

# `make e2e-long` asks for more of each.
SCALE_DOWNS = int(os.environ.get("FOREBAY_SCALE_DOWNS", "6"))
ROLLOUTS = int(os.environ.get("FOREBAY_ROLLOUTS", "2"))
OPERATOR_KILLS = int(os.environ.get("FOREBAY_OPERATOR_KILLS", "8"))
STREAMS = int(os.environ.get("FOREBAY_STREAMS", "800"))
"""At least this many."""
STREAM_SECONDS = 20.0
OPEN_ON_A_VICTIM = 10
OUTPUT_TOKENS = 105
"""At 0.2 s a step, a little over 20 s."""
HELD = 66
"""Open streams of each service: 22 on each of three replicas, so that a victim holds well over ten."""


@dataclass(slots=True)
class OperatorKiller:
    """SIGKILLs an operator process at random moments until it has done so `kills` times."""

    forebay: Installation
    kills: int
    done: int = 0
    faults: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        chance = random.Random(20)
        while self.done < self.kills and not stop.wait(chance.uniform(5, 25)):
            try:
                self.done += self.forebay.kill_an_operator(chance)
            except Exception as error:  # noqa: BLE001 - reported by the test, which must not hang on a thread's death
                self.faults.append(repr(error))
                return


def patch_scaling(forebay: Installation, service: str, **fields: int) -> None:
    forebay.patch(service, {"spec": {"scaling": fields}})


def scale_down_and_up(forebay: Installation, service: str) -> float:
    """One cycle 3 → 2 → 3; the number of streams that were open on the victim when its drain began."""
    before = eventually(
        lambda: open_streams(forebay.kubectl, service, forebay.namespace),
        lambda running: len(running) == 3 and min(running.values()) >= OPEN_ON_A_VICTIM,
        within=90,
        what=f"{OPEN_ON_A_VICTIM} streams on each of 3 replicas of {service}",
        pause=0.5,
    )
    patch_scaling(forebay, service, minReplicas=2, maxReplicas=2)
    victims = eventually(
        lambda: [p for p in pods_of(forebay.kubectl, service, forebay.namespace) if is_draining(p)],
        within=60,
        what=f"a replica of {service} drains",
    )
    on_victim = metric(victims[0], "vllm:num_requests_running") or 0.0
    assert name_of(victims[0]) in before
    wait_for_serving(forebay.kubectl, service, 2, within=120, namespace=forebay.namespace)
    patch_scaling(forebay, service, minReplicas=3, maxReplicas=3)
    wait_for_serving(forebay.kubectl, service, 3, within=120, namespace=forebay.namespace)
    return on_victim


def roll_out(forebay: Installation, service: str, number: int) -> None:
    """One rollout of three replicas, by a harmless change of the engine's environment."""
    old = {name_of(pod) for pod in pods_of(forebay.kubectl, service, forebay.namespace)}
    manifest = forebay.get(service)
    env = [entry for entry in manifest["spec"]["engine"]["env"] if entry["name"] != "ROLLOUT"]
    forebay.patch(service, {"spec": {"engine": {"env": [*env, {"name": "ROLLOUT", "value": str(number)}]}}})
    eventually(
        lambda: pods_of(forebay.kubectl, service, forebay.namespace),
        lambda pods: len(pods) == 3 and all(map(is_serving, pods)) and not old & {name_of(pod) for pod in pods},
        within=300,
        what=f"rollout {number} of {service}",
        pause=0.5,
    )
    eventually(
        lambda: forebay.get(service), has_condition("UpToDate", "True"), within=60, what=f"{service} says UpToDate"
    )


def test_scale_downs_and_rollouts_break_no_stream(forebay: Installation) -> None:
    services = {"shrinks": 3, "rolls": 3}
    for name, most in services.items():
        manifest = (
            an_inference_service(name, forebay.namespace).replicas(3, most).profile(EngineProfile()).lenient_slo()
        )
        forebay.kubectl.apply(manifest.drain_timeout("120s").object)
    for name in services:
        wait_for_serving(forebay.kubectl, name, 3, within=120, namespace=forebay.namespace)
    traffic = {name: Traffic(forebay.reached(name), f"{forebay.namespace}/{name}") for name in services}
    killer = OperatorKiller(forebay, OPERATOR_KILLS)
    stop = threading.Event()
    with (
        PodHistory(forebay.kubectl, forebay.namespace, "shrinks") as shrinks,
        PodHistory(forebay.kubectl, forebay.namespace, "rolls") as rolls,
    ):
        for stream in traffic.values():
            stream.hold(HELD, prompt_tokens=16, output_tokens=OUTPUT_TOKENS)
        killing = threading.Thread(target=killer.run, args=(stop,), daemon=True)
        killing.start()
        failures: list[BaseException] = []
        rolling = threading.Thread(target=_roll_all, args=(forebay, failures), daemon=True)
        rolling.start()
        victims = [scale_down_and_up(forebay, "shrinks") for _ in range(SCALE_DOWNS)]
        rolling.join(900)
        killing.join(900)
        stop.set()
        eventually(
            lambda: sum(len(stream.records) - stream.open for stream in traffic.values()),
            lambda ended: ended >= STREAMS,
            within=300,
            what=f"{STREAMS} streams ended",
            pause=1.0,
        )
        records = [record for stream in traffic.values() for record in stream.finish(180)]
    assert not failures, failures
    assert not killer.faults, killer.faults
    assert killer.done == OPERATOR_KILLS
    assert len(records) >= STREAMS
    assert faults(records) == []
    assert min(record.ended - record.started for record in records if record.ended) >= STREAM_SECONDS
    assert min(victims) >= OPEN_ON_A_VICTIM, f"streams open on the victims: {victims}"
    assert shrinks.most_taking_requests() <= 3
    assert rolls.most_taking_requests() <= 3 + 1, "maxReplicas and one of surge"
    print(f"{len(records)} streams whole; open on the victims {victims}; operator killed {killer.done} times")


def _roll_all(forebay: Installation, failures: list[BaseException]) -> None:
    try:
        for number in range(ROLLOUTS):
            roll_out(forebay, "rolls", number)
    except BaseException as error:  # noqa: BLE001 - carried to the test's thread
        failures.append(error)
