"""What the capacity plan does to a service: it stops what has never run, warns what runs, and is told in the status."""

import pytest

from forebay.api.reasons import Reason
from forebay.api.status import CapacityStatus, PlannedReplicas, PlanStatus
from forebay.planner.memory import State
from forebay.planner.planner import plan
from forebay.world.world import SpecProblem
from tests.builders.loads import a_replica_capacity, known
from tests.builders.plans import condition, creates, deletes, message
from tests.builders.world import NOW, a_revision, a_service, a_world, pods_of, signals_of

LONG_AGO = State.empty(NOW - 3600)
TOO_LARGE = SpecProblem(Reason.DOES_NOT_FIT, "spec.model.source: does not fit: 12 GiB are missing on each GPU.")
PLANNED = PlanStatus(
    product="NVIDIA-H100-80GB-HBM3",
    tensor_parallel_size=1,
    pipeline_parallel_size=1,
    data_parallel_size=1,
    kv_tokens_per_replica=441_520,
    max_concurrent_sequences=256,
    replicas=PlannedReplicas(active=3),
)
ONE = CapacityStatus(tokens_per_minute=1_968_502, per_replica=1_968_502, basis="profile")


def test_a_spec_that_never_ran_and_does_not_fit_gets_no_pod():
    service = a_service(misfits=(TOO_LARGE,), plan=PLANNED)
    done, _ = plan(a_world(service, revisions={}), LONG_AGO, NOW)
    assert creates(done) == []
    assert condition(done, "Planned") == ("False", "DoesNotFit")
    assert message(done, "Planned") == TOO_LARGE.message
    assert done.services[0].status.plan == PLANNED


def test_one_that_runs_is_only_warned_and_scales_on():
    """The operator learned to plan after it was started; what serves proves that it fits."""
    service = a_service(min_replicas=3, misfits=(TOO_LARGE,))
    pods = pods_of(service, 2)
    stored = {service.uid: (a_revision(number=1),)}
    done, _ = plan(a_world(service, revisions=stored, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    assert len(creates(done)) == 1
    assert deletes(done) == []
    assert condition(done, "Planned") == ("True", "DoesNotFit")
    assert TOO_LARGE.message in message(done, "Planned")


def test_a_change_to_a_spec_that_does_not_fit_leaves_the_old_pods_as_they_are():
    service = a_service(misfits=(TOO_LARGE,), wanted=a_revision("9abc"))
    pods = pods_of(a_service(), 2)
    stored = {service.uid: (a_revision(number=1),)}
    done, _ = plan(a_world(service, revisions=stored, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    assert (creates(done), deletes(done)) == ([], [])
    assert condition(done, "Planned") == ("False", "DoesNotFit")
    assert condition(done, "Ready") == ("True", "Serving")


@pytest.mark.parametrize("serving", [0, 1, 3])
def test_capacity_counts_what_serves(serving):
    service = a_service(max_replicas=4, min_replicas=3, plan=PLANNED, capacity_status=ONE)
    pods = pods_of(service, serving)
    done, _ = plan(a_world(service, pods=pods, signals=signals_of(pods)), LONG_AGO, NOW)
    status = done.services[0].status
    assert status.plan == PLANNED
    assert status.capacity == CapacityStatus(
        tokens_per_minute=serving * 1_968_502, per_replica=1_968_502, basis="profile"
    )


def test_a_service_that_cannot_be_planned_shows_none():
    done, _ = plan(a_world(a_service()), LONG_AGO, NOW)
    assert (done.services[0].status.plan, done.services[0].status.capacity) == (None, None)


def test_capacity_is_that_of_the_mix_that_arrives_once_it_was_seen():
    service = a_service(
        max_replicas=4, min_replicas=2, plan=PLANNED, capacity_status=ONE, replica_capacity=a_replica_capacity()
    )
    pods, state = pods_of(service, 2), LONG_AGO
    for tick in range(20):
        counters = {
            "finished": 20.0 * tick,
            "finished_prompt_tokens": 120_000.0 * tick,
            "finished_output_tokens": 6000.0 * tick,
        }
        signals = signals_of(pods, at=NOW + 5 * tick, running=3, **counters)
        done, state = plan(a_world(service, pods=pods, signals=signals), state, NOW + 5 * tick)
        if tick < 2:
            assert known(done.services[0].status.capacity).per_replica == 1_968_502
    assert known(done.services[0].status.capacity) == CapacityStatus(
        tokens_per_minute=2_600_000, per_replica=1_300_000, basis="profile"
    )
