"""Whole minutes of several tenants on one pool in virtual time, within one percent of what their shares say."""

import pytest

from forebay.admission.scheduler import Scheduler
from tests.builders.admission import Clients, a_pool, a_scheduler, short_waits
from tests.builders.tenants import a_tenant

WAIT_SECONDS = 3.0
MINUTES = 4


def played(scheduler: Scheduler, used: float = 1.0, **asks: float) -> Clients:
    return Clients(scheduler, asks, used=used).play(60 + 60 * MINUTES)


@pytest.mark.parametrize(
    ("tenants", "asks", "used", "expected"),
    [
        pytest.param(
            (a_tenant("a"), a_tenant("b"), a_tenant("c")),
            {"a": 300_000, "b": 250_000, "c": 2_000_000},
            1.0,
            {"a": 300_000, "b": 250_000, "c": 450_000},
            id="what two leave goes to the third",
        ),
        pytest.param(
            (a_tenant("a"), a_tenant("b"), a_tenant("c")),
            {"a": 300_000, "b": 250_000, "c": 2_000_000},
            0.84,
            {"a": 252_000, "b": 210_000, "c": 538_000},
            id="replies shorter than reserved are settled, and the capacity is used in full",
        ),
        pytest.param(
            (a_tenant("a"), a_tenant("b"), a_tenant("c", batch=True)),
            {"a": 700_000, "b": 500_000, "c": 2_000_000},
            1.0,
            {"a": 500_000, "b": 500_000, "c": 0},
            id="batch gets what interactive leaves, and that is nothing",
        ),
        pytest.param(
            (a_tenant("a", guaranteed=600_000), a_tenant("b"), a_tenant("c")),
            {"a": 800_000, "b": 800_000, "c": 2_000_000},
            1.0,
            {"a": 600_000, "b": 200_000, "c": 200_000},
            id="a guarantee above the share by weight",
        ),
        pytest.param(
            (a_tenant("a", weight=2), a_tenant("b"), a_tenant("c", limit=200_000)),
            {"a": 2_000_000, "b": 2_000_000, "c": 2_000_000},
            1.0,
            {"a": 533_333, "b": 266_667, "c": 200_000},
            id="weights beside a limit",
        ),
    ],
)
def test_tokens_per_minute(tenants, asks, used, expected):
    clients = played(a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS)), used, **asks)

    assert clients.tokens_per_minute() == pytest.approx(expected, rel=0.01, abs=1000)


@pytest.mark.parametrize(
    ("tenants", "asks", "expected"),
    [
        pytest.param(
            (
                a_tenant("org", guaranteed=600_000),
                a_tenant("a", parent="org", guaranteed=400_000),
                a_tenant("b", parent="org"),
                a_tenant("z"),
            ),
            {"a": 100_000, "b": 900_000, "z": 900_000},
            {"a": 100_000, "b": 500_000, "z": 400_000},
            id="a sibling borrows before others do",
        ),
        pytest.param(
            (a_tenant("org", limit=300_000), a_tenant("a", parent="org"), a_tenant("b", parent="org"), a_tenant("z")),
            {"a": 900_000, "b": 900_000, "z": 900_000},
            {"a": 150_000, "b": 150_000, "z": 700_000},
            id="a limit of a group",
        ),
        pytest.param(
            (a_tenant("a"), a_tenant("c", batch=True, guaranteed=300_000)),
            {"a": 2_000_000, "c": 2_000_000},
            {"a": 700_000, "c": 300_000},
            id="a guarantee of batch",
        ),
    ],
)
def test_the_scheduler_gives_what_the_division_grants(tenants, asks, expected):
    clients = played(a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS)), **asks)

    assert clients.tokens_per_minute() == pytest.approx(expected, rel=0.01)


def test_tenants_within_their_share_hardly_wait_and_the_others_are_refused_at_the_door():
    tenants = (a_tenant("a"), a_tenant("b"), a_tenant("c"))
    clients = played(a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS)), a=300_000, b=250_000, c=2_000_000)

    assert max(clients.longest_wait("a"), clients.longest_wait("b")) < 0.15
    assert not clients.refusals("a")
    assert clients.longest_wait("c") <= WAIT_SECONDS
    assert at_the_door(clients, "c") > 0.99


def at_the_door(clients: Clients, tenant: str) -> float:
    """Part of a tenant's refusals that came at once."""
    waits = [wait for wait, _ in clients.refusals(tenant)]
    return sum(wait == 0 for wait in waits) / len(waits)


def test_a_request_that_waits_and_goes_away_is_not_charged():
    """Charged on arrival, those that clients of `c` give up would push it back behind `b`."""
    tenants = (a_tenant("a", guaranteed=600_000), a_tenant("b"), a_tenant("c"))
    scheduler = a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS))
    asks = {"a": 800_000, "b": 800_000, "c": 2_000_000}
    clients = Clients(scheduler, asks, patience={"c": 1.0}).play(60 + 60 * MINUTES)

    assert len(clients.gone) > 1000
    assert clients.tokens_per_minute() == pytest.approx({"a": 600_000, "b": 200_000, "c": 200_000}, rel=0.01)


def test_the_wait_is_predicted_from_what_was_measured_and_not_from_the_share_by_weight():
    """By weight each would have a third. The guarantee of `a` leaves a fifth, so 3 s by weight are really 5 s."""
    tenants = (a_tenant("a", guaranteed=600_000), a_tenant("b"), a_tenant("c"))
    clients = played(a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS)), a=800_000, b=800_000, c=2_000_000)

    assert min(at_the_door(clients, "b"), at_the_door(clients, "c")) > 0.99


def test_guaranteed_service_of_the_past_is_no_debt():
    """Ten minutes long `a` gets three times as much as `b`; when there is enough, all get the same within seconds."""
    tenants = (a_tenant("a", guaranteed=600_000), a_tenant("b"), a_tenant("c"))
    clients = played(a_scheduler(*tenants, limits=short_waits(WAIT_SECONDS)), a=2e6, b=2e6, c=2e6)
    clients.scheduler.see(a_pool(3_000_000), clients.now)
    since = clients.play(30).now
    clients.play(60)

    assert clients.tokens_per_minute(since) == pytest.approx({"a": 1e6, "b": 1e6, "c": 1e6}, rel=0.02)
