"""The demo's cluster: two real nodes as root, otherwise an API server with simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console

from e2e.demo.load import ROOT, Clients, Load, SimulatedClients
from e2e.fleet_process import FleetProcess
from e2e.harness import ControlPlane
from e2e.harness.choice import cluster_for_tests
from e2e.harness.kubectl import Kubectl, Object
from e2e.harness.kwok import PodTimes
from e2e.harness.state import NODES_MODE
from e2e.installation import events_of, install
from e2e.operator_process import OperatorProcess

NAMESPACE = "demo"
PRODUCT = "NVIDIA-L40S"
"""The card that the manifest asks for; one of the two real nodes has eight of them."""
START_SECONDS = 6.0
"""How long a simulated pod takes to load."""

LEFT_OUT = (
    "[yellow]Without root there are no containers here.[/] The API server, the scheduler, the operator and what it "
    f"decides are real; pods are objects that become Ready after {START_SECONDS:.0f} s, and fleet-sim answers for "
    "their engines. Left out: images, probes, Services, the chart, and real streams: whether one was cut is the "
    "simulator's count."
)


@dataclass(frozen=True, slots=True)
class Stage:
    kubectl: Kubectl
    namespace: str

    def service(self, name: str) -> Object:
        found = self.kubectl.get("infs", name, self.namespace)
        assert found is not None, f"there is no InferenceService {self.namespace}/{name}"
        return found

    def events(self, name: str) -> list[Object]:
        return events_of(self.kubectl, self.namespace, name)

    def load(self, name: str) -> Load:
        raise NotImplementedError


class RealStage(Stage):
    """Containers, Services, streams."""

    def load(self, name: str) -> Load:
        service = self.kubectl.get("service", name, self.namespace)
        assert service is not None, f"there is no Service {self.namespace}/{name}"
        return Clients(f"http://{service['spec']['clusterIP']}:{service['spec']['ports'][0]['port']}", name)


@dataclass(frozen=True, slots=True)
class SimulatedStage(Stage):
    """An API server, KWOK nodes, and fleet-sim."""

    fleet_sim: str

    def load(self, name: str) -> Load:
        return SimulatedClients(self.fleet_sim, self.namespace, name)


@contextmanager
def real_stage() -> Iterator[Stage]:
    with cluster_for_tests(ROOT / ".cluster" / NODES_MODE) as cluster:
        install(cluster)
        cluster.kubectl("create", "namespace", NAMESPACE)
        yield RealStage(cluster.kubectl, NAMESPACE)


@contextmanager
def simulated_stage(console: Console) -> Iterator[Stage]:
    console.print(LEFT_OUT)
    directory = ROOT / ".cluster" / "demo"
    with ControlPlane.start(directory, pods=PodTimes(start_seconds=START_SECONDS)) as plane:
        plane.add_gpu_nodes(1, product=PRODUCT)
        plane.kubectl.apply(*sorted((ROOT / "crds").glob("*.yaml")), server_side=True)
        plane.kubectl("wait", "--for=condition=Established", "crd/inferenceservices.forebay.dev", "--timeout=30s")
        plane.kubectl("create", "namespace", NAMESPACE)
        with FleetProcess(plane.kubeconfig, directory / "fleet-sim.log") as fleet:
            flags: dict[str, str | float | bool] = {"metrics-url": fleet.metrics_url}
            with OperatorProcess(plane.kubeconfig, directory / "operator", flags):
                yield SimulatedStage(plane.kubectl, NAMESPACE, fleet.url)
