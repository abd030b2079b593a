"""The way down: every reason to keep a replica, and the one way to give it up."""

import re
from dataclasses import replace

import pytest

from forebay.scaling.decision import Proposal
from forebay.scaling.learning.offered_work import OfferedWork, compute_offered_work
from forebay.scaling.limits import Limits
from forebay.scaling.load.arrivals import Arrivals
from forebay.scaling.load.freshness import Freshness
from forebay.scaling.load.load_window import LoadWindow, Overload, WindowPart
from forebay.scaling.load.service_load import ServiceLoad, SilentReplica
from forebay.scaling.rules.situation import ReplicaCounts, Situation
from forebay.scaling.rules.stabilizer import ScaleDownInput, enough_for_window, fewest_for, stabilize
from forebay.scaling.scaling_inputs import ScalingInputs
from tests.builders.loads import a_latency, a_load, a_replica_capacity, some_limits
from tests.builders.world import NOW

LIMITS = some_limits(queue_depth=20, kv_fraction=0.8, headroom=0.2, max_num_seqs=256)


def a_window(
    *,
    watched: float = 300.0,
    waiting: float = 0.0,
    running: float = 0.0,
    kv: float = 0.0,
    late: str = "",
    overloads: tuple[Overload, ...] = (),
    work: float | None = None,
    work_long: float | None = None,
    work_known: float | None = None,
) -> LoadWindow:
    """`work` in replicas, of the last scaleDownCooldown, and of the last half hour when that was watched."""
    watched = 1800.0 if work_long is not None else watched
    known = watched if work_known is None else work_known
    return LoadWindow(
        NOW - watched,
        NOW,
        (WindowPart(NOW - watched, waiting, running, kv, late, work),),
        overloads,
        work_since=None if work is None else NOW - known,
        long=() if work_long is None else ((NOW - watched, work_long),),
    )


def down(
    desired: int = 3,
    *,
    serving: int | None = None,
    draining: int = 0,
    raised_ago: float = 9999.0,
    lowered_ago: float | None = None,
    load: ServiceLoad | None = None,
    load_window: LoadWindow | None = None,
    limits: Limits | None = None,
    floor: int = 0,
    counts_work: bool = False,
) -> ScaleDownInput:
    """`counts_work`: the capacity of a replica is known, and so is the count that the arriving work needs."""
    serving = desired if serving is None else serving
    offered_work = compute_offered_work(a_replica_capacity(), Arrivals(), None, None, NOW)
    assert isinstance(offered_work, OfferedWork)
    return ScaleDownInput(
        Situation(
            limits=replace(limits or LIMITS, min_replicas=0, max_replicas=100),
            load=a_load(serving) if load is None else load,
            now=NOW,
            counts=ReplicaCounts(serving=serving, draining=draining),
            desired=desired,
            raised_at=NOW - raised_ago,
            lowered_at=None if lowered_ago is None else NOW - lowered_ago,
            load_window=load_window or a_window(),
            scaling_inputs=ScalingInputs(floors=(Proposal(floor, "floor", "the test says so"),)),
            offered_work=offered_work if counts_work else None,
        )
    )


SILENT = SilentReplica("chat-1", Freshness.STALE, NOW - 40, "no answer within 4 s")


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        pytest.param(
            down(3, load=a_load(3, silent=(SILENT,))), "metrics_unknown", id="missing metrics are not idleness"
        ),
        pytest.param(down(3, serving=0), "metrics_unknown", id="no replica serves: the load is unknown"),
        pytest.param(down(3, raised_ago=299), "recently_raised", id="the cooldown counts from the last rise"),
        pytest.param(down(3, lowered_ago=299), "recently_lowered", id="a third goes after a whole cooldown"),
        pytest.param(down(3, lowered_ago=300), None, id="it is over"),
        pytest.param(down(4, lowered_ago=0), None, id="a quarter does not wait"),
        pytest.param(down(3, load_window=a_window(watched=299)), "not_watched_in_full", id="the window is too short"),
        pytest.param(down(3, load_window=LoadWindow()), "not_watched_in_full", id="no window"),
        pytest.param(down(3, load_window=a_window(waiting=34)), "queue_would_grow", id="34 + 20 % wait on 2, 20 each"),
        pytest.param(
            down(3, load_window=a_window(running=480)),
            "queue_would_grow",
            id="480 + 20 % run on 2 of 256: 64 would wait",
        ),
        pytest.param(
            down(3, load_window=a_window(running=99, kv=1.4)),
            "kv_cache_would_fill",
            id="1.4 + 20 % on 2 is 84 %",
        ),
        pytest.param(
            down(3, load_window=a_window(running=6, kv=1.2)),
            "kv_cache_would_fill",
            id="1.2 of 6 requests vary by 41 %: 85 % on 2",
        ),
        pytest.param(down(5, load_window=a_window(running=99, kv=3.25)), "kv_cache_would_fill", id="65 % on 5 stays"),
        pytest.param(down(3, load_window=a_window(late="queue wait …")), "latency_was_late", id="it was nearly late"),
        pytest.param(
            down(3, load_window=a_window(running=90, overloads=(Overload(NOW - 900, 45.0, "time_to_first_token"),))),
            "load_was_too_much",
            id="45 on each were too many before",
        ),
        pytest.param(down(3, draining=1), "draining_now", id="one at a time"),
        pytest.param(
            down(3, load_window=a_window(work=1.7)), "work_would_not_fit", id="1.7 and a fifth do not fit on 2"
        ),
        pytest.param(
            down(3, load_window=a_window(work=1.5, work_long=1.9)),
            None,
            id="1.5 and a fifth do, whatever was before",
        ),
        pytest.param(
            down(3, load_window=a_window(work=1.7, work_long=1.9)), "work_would_not_fit", id="nor do 1.9 and a tenth"
        ),
        pytest.param(
            down(3, load_window=a_window(work=1.7, work_long=1.8)), None, id="over half an hour a tenth is enough"
        ),
        pytest.param(
            down(3, load_window=a_window(work=0.9), limits=replace(LIMITS, warm_replicas=1)),
            "work_would_not_fit",
            id="warm replicas do not count",
        ),
        pytest.param(
            down(3, load_window=a_window(work=0.1, work_known=299)),
            "work_would_not_fit",
            id="work was not always known",
        ),
        pytest.param(
            down(
                3,
                load_window=a_window(watched=59),
                limits=replace(LIMITS, scale_down_cooldown_seconds=1),
                counts_work=True,
            ),
            "work_would_not_fit",
            id="where work can be known, it is waited for",
        ),
        pytest.param(
            down(3, load_window=a_window(), counts_work=True), None, id="engines that never count it hold nothing"
        ),
    ],
)
def test_reasons_to_keep_the_replica_count(case, rule):
    proposal = stabilize(case)
    down = ("scale_down", case.situation.desired - 1)
    assert (proposal.rule, proposal.replicas) == (down if rule is None else (rule, case.situation.desired))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(down(3), id="idle"),
        pytest.param(down(3, load_window=a_window(waiting=33)), id="33 + 20 % wait on 2, 20 each"),
        pytest.param(down(3, load_window=a_window(running=99, kv=1.3)), id="1.3 + 20 % on 2 is 78 %"),
        pytest.param(
            down(3, load_window=a_window(running=88, overloads=(Overload(NOW - 900, 45.0, "queue_wait"),))),
            id="44 on each is less than what was too many",
        ),
        pytest.param(
            down(3, serving=2, load_window=a_window(running=99, kv=1.3)), id="one that never started has no load"
        ),
    ],
)
def test_one_replica_less(case):
    proposal = stabilize(case)
    assert (proposal.rule, proposal.replicas) == ("scale_down", case.situation.desired - 1)


def test_a_replica_that_has_not_started_takes_no_load_with_it():
    """Two serve and a third never came: giving it up leaves the two, not one."""
    full = a_window(running=99, kv=1.2)
    assert stabilize(down(3, serving=2, load_window=full)).rule == "scale_down"
    assert stabilize(down(2, serving=2, load_window=full)).rule == "kv_cache_would_fill"


def test_the_sentences_give_the_numbers():
    proposal = stabilize(down(3, load_window=a_window(running=12, waiting=4, kv=0.8)))
    assert re.findall(r"\d+(?: (?:replicas|requests|s|%))?", proposal.because) == [
        "2 replicas",
        "300 s",
        "12 requests",
        "4",
        "40 %",
    ]
    held = stabilize(down(3, load_window=a_window(running=99, kv=1.4)))
    assert re.findall(r"\d+ (?:replicas|%)", held.because) == ["2 replicas", "84 %", "20 %", "80 %"]


def test_enough_for_window_needs_a_full_window():
    assert enough_for_window(1, a_window(), LIMITS, NOW)
    assert not enough_for_window(1, a_window(watched=200), LIMITS, NOW)
    assert not enough_for_window(0, a_window(), LIMITS, NOW)
    assert not enough_for_window(1, a_window(kv=0.7), LIMITS, NOW)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        pytest.param(a_load(4), 1, id="idle: one"),
        pytest.param(a_load(4, kv=0.3), 2, id="1.2 full replicas and headroom: two"),
        pytest.param(a_load(4, waiting=60), 4, id="72 wait with headroom: four"),
        pytest.param(a_load(4, silent=(SILENT,)), None, id="unknown"),
        pytest.param(a_load(4, inter_token_latency=a_latency({0.01: 1000})), 1, id="fast"),
    ],
)
def test_fewest_replicas_for_the_present_load(load, expected):
    assert fewest_for(load, LIMITS) == expected


@pytest.mark.parametrize(
    ("case", "left"),
    [
        pytest.param(down(19, load_window=a_window(work=2)), 18, id="one of 19"),
        pytest.param(down(40, load_window=a_window(work=2)), 36, id="a tenth of 40, far below"),
        pytest.param(down(40, load_window=a_window(work=31.5)), 38, id="as many as the work allows"),
        pytest.param(down(40, load_window=a_window(work=2, running=999, kv=26)), 39, id="as many as the guards allow"),
        pytest.param(down(40, load_window=a_window(work=2), floor=38), 38, id="not below the floor"),
        pytest.param(
            down(40, load_window=a_window(work=2), draining=2), 40, id="the next batch waits for the one before"
        ),
    ],
)
def test_a_large_fleet_goes_by_batches(case, left):
    assert stabilize(case).replicas == left


def test_enough_for_window_checks_the_work():
    assert enough_for_window(2, a_window(work=1.6), LIMITS, NOW)
    assert not enough_for_window(2, a_window(work=1.7), LIMITS, NOW)
