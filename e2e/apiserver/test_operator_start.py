"""An operator that starts before its permissions and CRDs exist: it reports what is missing and waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import ControlPlane, eventually
from e2e.manifests import an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import OPERATOR_NAMESPACE, RELEASE, Suite, install_crds, rights_of_the_chart


@pytest.fixture
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suite]:
    """A control plane with an account for the operator, but without permissions and CRDs."""
    with ControlPlane.start(tmp_path_factory.mktemp("bare-plane")) as plane:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}}
        account = [found for found in rights_of_the_chart() if found["kind"] == "ServiceAccount"]
        plane.kubectl.apply(namespace, *account)
        plane.add_gpu_nodes(1)
        yield Suite(plane, plane.kubectl.as_service_account(RELEASE, OPERATOR_NAMESPACE).kubeconfig)


def says(operator: OperatorProcess, sentence: str) -> None:
    """Wait until the operator is alive, not ready, and reports this sentence."""
    eventually(
        lambda: operator.answers("/healthz"),
        lambda answer: answer[0] == 200 and sentence in answer[1],
        within=60,
        what=f"the health check says that {sentence}",
    )
    assert operator.answers("/readyz")[0] == 503


def test_without_permissions_or_crds_the_operator_reports_and_waits(bare, tmp_path):
    operator = bare.operator(tmp_path / "operator")
    operator.wait_until_ready = False
    with operator:
        says(operator, "the operator's service account lacks a permission")
        bare.plane.kubectl.apply(*rights_of_the_chart())
        says(operator, "the cluster does not serve InferenceServices; apply the CRDs")
        install_crds(bare.plane)
        operator.becomes_ready()
        manifest = an_inference_service("chat")
        bare.apply(manifest)
        bare.serves(manifest, ready=1)
