"""How the operator ends, dies, loses its cluster, and what its successor finds."""

from __future__ import annotations

import time

import pytest

from e2e.harness import ControlPlane, eventually
from e2e.manifests import an_inference_service
from e2e.operator_process import OperatorProcess
from e2e.operator_suite import LEADS_WITHIN_SECONDS, OPERATOR_NAMESPACE, RELEASE

pytestmark = pytest.mark.alone
GRACEFUL_SECONDS = 10.0


def leader_of(one: OperatorProcess, two: OperatorProcess) -> tuple[OperatorProcess, OperatorProcess]:
    """The leader and the standby, once there is a leader."""
    eventually(lambda: one.leads() or two.leads(), within=LEADS_WITHIN_SECONDS, what="one of them leads")
    return (one, two) if one.leads() else (two, one)


def test_sigterm_stops_gracefully_and_releases_the_lease(suite, operator):
    eventually(operator.leads, within=LEADS_WITHIN_SECONDS, what="the operator leads")
    code, seconds = operator.stop()
    assert code == 0
    assert seconds < GRACEFUL_SECONDS
    lease = suite.plane.kubectl.get("lease", RELEASE, OPERATOR_NAMESPACE)
    assert lease is not None
    assert not lease["spec"].get("holderIdentity")


def test_a_killed_operator_restarts_without_restarting_pods(suite, namespace, operator):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    suite.apply(manifest)
    suite.serves(manifest, ready=2)
    before = suite.identities(namespace)
    operator.restart()
    eventually(operator.leads, within=LEADS_WITHIN_SECONDS, what="the restarted operator leads")
    operator.ticks_on(6, within=60)
    assert suite.identities(namespace) == before


def test_a_service_applied_while_no_operator_runs_is_served_by_the_next(suite, namespace, operator):
    operator.stop()
    manifest = an_inference_service("chat", namespace)
    suite.apply(manifest)
    operator.start()
    suite.serves(manifest, ready=1)


def test_repeated_kills_during_scaling_never_create_too_many_pods(suite, namespace, operator, pod_history):
    manifest = an_inference_service("chat", namespace).replicas(4, 4)
    with pod_history("chat") as history:
        suite.apply(manifest)
        for _ in range(4):
            eventually(operator.leads, within=LEADS_WITHIN_SECONDS, what="it leads")
            operator.restart(lease_identity="the-one")
        suite.serves(manifest, ready=4)
        operator.ticks_on(4, within=60)
    assert history.most_taking_requests() == 4


def test_of_two_operators_one_leads_and_the_other_follows_within_seconds(suite, namespace, tmp_path):
    with suite.operator(tmp_path / "one") as one, suite.operator(tmp_path / "two") as two:
        leader, standby = leader_of(one, two)
        assert not standby.leads()
        assert standby.answers("/readyz")[0] == 200
        manifest = an_inference_service("chat", namespace)
        suite.apply(manifest)
        suite.serves(manifest, ready=1)
        before = suite.identities(namespace)
        leader.kill()
        eventually(standby.leads, within=LEADS_WITHIN_SECONDS, what="the standby leads")
        standby.ticks_on(4, within=60)
        assert suite.identities(namespace) == before


def test_a_leader_that_stops_hands_over_at_once(suite, tmp_path):
    with suite.operator(tmp_path / "one") as one, suite.operator(tmp_path / "two") as two:
        leader, standby = leader_of(one, two)
        assert leader.stop()[0] == 0
        eventually(standby.leads, within=5, what="the standby leads")


def test_a_leader_that_lost_its_lease_ends_without_further_writes(suite, operator):
    eventually(operator.leads, within=LEADS_WITHIN_SECONDS, what="it leads")
    stolen = '{"spec": {"holderIdentity": "somebody-else"}}'
    suite.plane.kubectl("patch", "lease", RELEASE, "-n", OPERATOR_NAMESPACE, "--type=merge", "-p", stolen)
    assert operator.ends(within=15) == 3
    assert operator.log()[-1]["exit_code"] == 3
    suite.plane.kubectl("delete", "lease", RELEASE, "-n", OPERATOR_NAMESPACE)


def test_an_outage_of_the_api_server_is_survived(suite, namespace, tmp_path):
    manifest = an_inference_service("chat", namespace).replicas(2, 3)
    with suite.operator(tmp_path / "alone", leader_election=False) as operator:
        suite.apply(manifest)
        suite.serves(manifest, ready=2)
        before = suite.identities(namespace)
        suite.plane.daemon("kube-apiserver").kill()
        eventually(
            lambda: operator.answers("/healthz"),
            lambda said: said[0] == 200 and "the cluster cannot be read" in said[1],
            within=30,
            what="the health check names the outage and stays green",
        )
        down_until = time.monotonic() + 10
        eventually(lambda: time.monotonic() > down_until, within=20, what="the outage lasts")
        ControlPlane.start(suite.plane.directory)
        operator.ticks_on(4, within=90)
        assert suite.identities(namespace) == before
        suite.apply(manifest.replicas(3, 3))
        suite.serves(manifest, ready=3)
