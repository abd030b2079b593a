"""From proposals to one decision: which rule wins, what it waits for, and how bounds change it."""

import random
import re
from dataclasses import replace

import pytest

from forebay.api.inference_service import ScalingMode
from forebay.scaling.decision import Decision
from forebay.scaling.learning.offered_work import CAPACITY_UNKNOWN
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import ArrivalFlow
from forebay.scaling.load.load_window import LoadWindow, update_load_window
from forebay.scaling.load.service_load import ServiceLoad
from forebay.scaling.rules.guards import late
from forebay.scaling.rules.situation import ReplicaCounts, ScalingMemory
from tests.builders.loads import a_load, a_replica_capacity, some_limits
from tests.builders.loads import decided as decided_once
from tests.builders.world import NOW

LIMITS = some_limits(min_replicas=1, max_replicas=6)
IDLE = ScalingMemory(desired=2, raised_at=NOW - 9999, guard_raised_at=NOW - 9999)


def decided(
    load: ServiceLoad,
    counts: ReplicaCounts,
    memory: ScalingMemory = IDLE,
    limits: Limits = LIMITS,
    mode: ScalingMode = ScalingMode.AUTO,
    now: float = NOW,
) -> tuple[Decision, ScalingMemory]:
    return decided_once(limits, load, counts, mode, memory, now)


def watched_idle(replicas: int) -> LoadWindow:
    load_window = LoadWindow()
    for second in range(-300, 1, 5):
        load_window = update_load_window(load_window, a_load(replicas), LIMITS, NOW + second, late)
    return load_window


@pytest.mark.parametrize(
    ("limits", "expected", "rule"),
    [
        pytest.param(some_limits(min_replicas=3), 3, "min_replicas", id="minReplicas"),
        pytest.param(some_limits(min_replicas=3, warm_replicas=2), 5, "min_replicas", id="warm ones on top"),
        pytest.param(
            some_limits(min_replicas=3, warm_replicas=2, max_replicas=4), 4, "max_replicas", id="warm ones shrink first"
        ),
    ],
)
def test_floors(limits, expected, rule):
    decision, _ = decided(a_load(0), ReplicaCounts(), ScalingMemory(), limits)
    assert (decision.desired, decision.rule) == (expected, rule)


def test_a_guard_raises_in_one_jump_and_is_remembered():
    decision, memory = decided(a_load(2, waiting=100), ReplicaCounts(serving=2))
    assert (decision.desired, decision.rule, decision.before) == (3, "queue_depth", 2)
    assert re.findall(r"\d+", decision.because) == ["100", "2", "20"]
    assert (memory.desired, memory.raised_at, memory.guard_raised_at) == (3, NOW, NOW)


@pytest.mark.parametrize(
    ("counts", "jumped_ago", "expected"),
    [
        pytest.param(ReplicaCounts(serving=2), 89, 2, id="within scaleUpCooldown"),
        pytest.param(ReplicaCounts(serving=2), 90, 3, id="after scaleUpCooldown"),
    ],
)
def test_one_jump_per_cooldown(counts, jumped_ago, expected):
    decision, _ = decided(a_load(2, waiting=100), counts, replace(IDLE, guard_raised_at=NOW - jumped_ago))
    assert decision.desired == expected


@pytest.mark.parametrize(
    ("counts", "desired", "expected"),
    [
        pytest.param(ReplicaCounts(serving=4, loading=1), 5, 5, id="guards wait while the new one loads"),
        pytest.param(ReplicaCounts(serving=2, loading=1), 2, 3, id="guards do not wait for the surge of a rollout"),
        pytest.param(
            ReplicaCounts(serving=2, blocked=1, blocked_for_all=1),
            3,
            4,
            id="guards do not wait for a stuck one, and do not count it",
        ),
        pytest.param(
            ReplicaCounts(serving=2, blocked=2, blocked_for_all=2),
            4,
            4,
            id="two are stuck for a reason that stops all: one is added",
        ),
        pytest.param(
            ReplicaCounts(serving=2, blocked=2), 4, 5, id="two are stuck for reasons of their own: both are added"
        ),
        pytest.param(ReplicaCounts(serving=4, loading=1, blocked=1), 6, 6, id="one stuck, one loading: guards wait"),
    ],
)
def test_guards_while_replicas_are_on_their_way(counts, desired, expected):
    load, limits = a_load(counts.serving, waiting=50 * counts.serving), replace(LIMITS, max_replicas=9)
    decision, _ = decided(load, counts, replace(IDLE, desired=desired), limits)
    assert decision.desired == expected


def test_what_a_guard_waits_for_is_in_the_record():
    decision, _ = decided(a_load(2, waiting=100), ReplicaCounts(serving=2, loading=1), replace(IDLE, desired=3))
    assert decision.inputs["rule.queue_depth"] == "3 replicas, waits for 1 replica still loading"
    assert decision.rule == "not_watched_in_full"


def test_maxreplicas_cuts_and_says_what_was_asked():
    decision, _ = decided(a_load(6, waiting=900), ReplicaCounts(serving=6), replace(IDLE, desired=6))
    assert (decision.desired, decision.rule, decision.unbounded) == (6, "max_replicas", 9)
    assert re.findall(r"maxReplicas|queue_depth|\d+", decision.because) == [
        *("maxReplicas", "6", "queue_depth", "9"),
        *("900", "6", "20"),
    ]


def test_down_by_one_after_a_quiet_window_and_never_below_the_floor():
    memory = replace(IDLE, desired=5, load_window=watched_idle(5))
    limits = replace(LIMITS, min_replicas=4)
    decision, memory = decided(a_load(5), ReplicaCounts(serving=5), memory, limits)
    assert (decision.desired, decision.rule) == (4, "scale_down")
    decision, memory = decided(a_load(4), ReplicaCounts(serving=4), memory, limits, now=NOW + 5)
    assert (decision.desired, decision.rule) == (4, "min_replicas")


def test_a_restart_takes_the_newest_pod_for_the_last_rise():
    counts = ReplicaCounts(serving=8, wanted_before=8, newest_created_at=NOW - 100)
    decision, memory = decided(a_load(8), counts, ScalingMemory(), replace(LIMITS, max_replicas=8))
    assert (decision.desired, decision.rule) == (8, "recently_raised")
    assert (memory.raised_at, memory.guard_raised_at) == (NOW - 100, NOW - 100)


def test_missing_metrics_hold_the_count():
    decision, _ = decided(a_load(0), ReplicaCounts(serving=0), replace(IDLE, desired=5, load_window=watched_idle(5)))
    assert (decision.desired, decision.rule) == (5, "metrics_unknown")


@pytest.mark.parametrize("mode", [ScalingMode.RECOMMEND, ScalingMode.PAUSED])
def test_load_only_advises(mode):
    decision, memory = decided(a_load(2, waiting=100), ReplicaCounts(serving=2), mode=mode)
    assert (decision.desired, decision.applied, decision.rule) == (3, 2, "queue_depth")
    assert memory.desired == 2


@pytest.mark.parametrize(
    ("desired", "applied"),
    [
        pytest.param(0, 1, id="to minReplicas"),
        pytest.param(9, 6, id="to maxReplicas"),
        pytest.param(4, 4, id="as it is"),
    ],
)
def test_recommend_obeys_bounds(desired, applied):
    decision, _ = decided(a_load(0), ReplicaCounts(), replace(IDLE, desired=desired), mode=ScalingMode.RECOMMEND)
    assert decision.applied == applied


def counted(requests_per_second: float, *, replicas: int, seconds: int = 400, kv: float = 0.1) -> ScalingMemory:
    """The memory after such a load was looked at for so long, on a fleet that was large enough."""
    memory = replace(IDLE, desired=replicas)
    limits = replace(LIMITS, min_replicas=replicas, max_replicas=replicas)
    for second in range(-seconds, 0, 5):
        load = a_load(replicas, kv=kv, flow=ArrivalFlow(requests_per_second))
        _, memory = decided_once(
            limits,
            load,
            ReplicaCounts(serving=replicas),
            ScalingMode.AUTO,
            memory,
            NOW + second,
            replica_capacity=a_replica_capacity(),
        )
    return memory


def followed(
    requests_per_second: float,
    replicas: int,
    limits: Limits = LIMITS,
    *,
    kv: float = 0.1,
    mode: ScalingMode = ScalingMode.AUTO,
) -> Decision:
    load = a_load(replicas, kv=kv, flow=ArrivalFlow(requests_per_second))
    memory = counted(requests_per_second, replicas=replicas, kv=kv)
    return decided_once(
        limits, load, ReplicaCounts(serving=replicas), mode, memory, NOW, replica_capacity=a_replica_capacity()
    )[0]


@pytest.mark.parametrize(
    ("requests", "replicas", "limits", "expected", "rule"),
    [
        pytest.param(100, 2, LIMITS, 3, "feed_forward", id="work arrives for three: up at once, before anything waits"),
        pytest.param(100, 3, LIMITS, 3, "feed_forward", id="and there it stays"),
        pytest.param(
            100, 3, replace(LIMITS, warm_replicas=2), 5, "feed_forward", id="warm replicas on top of what is needed"
        ),
        pytest.param(
            100, 3, replace(LIMITS, warm_replicas=2, max_replicas=4), 4, "max_replicas", id="and they shrink first"
        ),
        pytest.param(0, 5, replace(LIMITS, min_replicas=4), 4, "scale_down", id="min 4, N 5, idle goes to 4"),
        pytest.param(0, 4, replace(LIMITS, min_replicas=4), 4, "min_replicas", id="and stays there"),
    ],
)
def test_the_count_follows_the_work_that_arrives(requests, replicas, limits, expected, rule):
    decision = followed(requests, replicas, limits)
    assert (decision.desired, decision.rule) == (expected, rule)


def test_feed_forward_3_n_4_and_a_kv_cache_at_65_percent_stays_at_4():
    decision = followed(100, 4, kv=0.65)
    assert (decision.desired, decision.rule) == (4, "work_would_not_fit")
    decision = followed(60, 4, kv=0.65)
    assert (decision.desired, decision.rule) == (4, "kv_cache_would_fill")
    assert decision.inputs["rule.feed_forward"] == "2 replicas"


def test_from_zero_with_no_arrivals_and_a_queue_of_10():
    load, limits = replace(a_load(0), waiting_requests=10), replace(LIMITS, min_replicas=0)
    decision, _ = decided_once(
        limits, load, ReplicaCounts(), ScalingMode.AUTO, ScalingMemory(), NOW, replica_capacity=a_replica_capacity()
    )
    assert (decision.desired, decision.rule) == (1, "backlog")


@pytest.mark.parametrize("mode", [ScalingMode.RECOMMEND, ScalingMode.PAUSED])
def test_arrivals_only_advise_too(mode):
    decision = followed(100, 2, mode=mode)
    assert (decision.desired, decision.applied) == (3, 2)


def test_the_record_gives_work_capacity_and_headroom():
    inputs = followed(100, 3).inputs
    assert inputs["offeredWork"] == "1.6 GPU-seconds per second: 100 requests of 16 ms"
    assert inputs["lengths"] == "500 tokens in, 200 out, declared"
    assert inputs["capacity"] == "0.74 GPU-seconds per second and replica (profile), bound by the time between tokens"
    assert inputs["headroom"] == "20 % (burst 15 %, growth 0 %, headroomPercent 20 %)"


@pytest.mark.parametrize("level", [37, 78, 155])
def test_steady_load_with_5_percent_noise_changes_the_count_twice_a_day_at_most(level):
    """At levels on both sides of a whole replica."""
    draw, memory, count, changes = random.Random(level), ScalingMemory(), 4, 0
    counts = ReplicaCounts(serving=4, wanted_before=4)
    for second in range(0, 86_400, 20):
        load = a_load(count, flow=ArrivalFlow(level * draw.gauss(1, 0.05), span_seconds=20))
        decision, memory = decided_once(
            LIMITS, load, counts, ScalingMode.AUTO, memory, NOW + second, replica_capacity=a_replica_capacity()
        )
        if second > 3600:
            changes += decision.applied != count
        count = decision.applied
        counts = ReplicaCounts(serving=count)
    assert changes <= 2


def test_a_step_from_10_to_30_replicas_with_a_slow_start_is_no_runaway():
    """Nothing that was ordered serves for ten minutes, and the queue grows all the time: 30 are needed in the end."""
    limits, memory, most = replace(LIMITS, max_replicas=1000), ScalingMemory(), 0
    counts = ReplicaCounts(serving=10, wanted_before=10)
    for second in range(-300, 600, 5):
        arriving = 390.0 if second < 0 else 1170.0
        waiting = max(0.0, (arriving - 470) * second)
        load = a_load(10, running=2560, waiting=waiting, flow=ArrivalFlow(arriving))
        decision, memory = decided_once(
            limits, load, counts, ScalingMode.AUTO, memory, NOW + second, replica_capacity=a_replica_capacity()
        )
        counts = ReplicaCounts(serving=10, loading=max(0, decision.applied - 10))
        most = max(most, decision.applied)
    assert decision.inputs["rule.feed_forward"] == "30 replicas"
    assert 30 <= most <= 45


def test_at_zero_guards_see_no_load_and_stay_there():
    """minReplicas 0 is a matter of other rules; with guards alone nothing wakes a service that is at zero."""
    decision, _ = decided(a_load(0), ReplicaCounts(), ScalingMemory(), replace(LIMITS, min_replicas=0))
    assert decision.desired == 0
    decision, _ = decided(
        a_load(1),
        ReplicaCounts(serving=1),
        ScalingMemory(1, NOW - 9999, NOW - 9999, load_window=watched_idle(1)),
        replace(LIMITS, min_replicas=0),
    )
    assert (decision.desired, decision.rule) == (1, "last_replica")


def test_the_record_names_every_rule_and_the_numbers_it_saw():
    decision, _ = decided(a_load(2, waiting=7, running=31, kv=0.455), ReplicaCounts(serving=2, loading=1))
    assert dict(decision.inputs) == {
        "bounds": "1 to 6 replicas",
        "serving": "2",
        "loading": "1",
        "metrics": "Fresh",
        "waiting": "7 requests, target 20 per replica",
        "running": "31 requests",
        "kvCache": "46 %, target 80 %",
        "offeredWork": CAPACITY_UNKNOWN,
        "rule.min_replicas": "1 replica",
        "rule.not_watched_in_full": "2 replicas",
    }
