"""Whoever reads a reason finds its heading, and no heading explains what cannot happen."""

import re

from forebay.scaling.desired import RULES
from forebay.scaling.guards import GUARDS
from forebay.scaling.last_replica import CHECKS as LAST_REPLICA_CHECKS
from forebay.scaling.stabilizer import CHECKS
from tests.docs.documents import headings
from tests.docs.reasons import CAMEL_CASE, reasons

PAGE = "troubleshooting.md"


def explained(pattern: str) -> list[str]:
    return [heading for heading in headings(PAGE) if re.fullmatch(pattern, heading)]


def test_every_reason_has_a_heading():
    assert sorted(reasons() - set(explained(CAMEL_CASE.pattern))) == []


def test_every_heading_is_a_reason():
    assert sorted(set(explained(CAMEL_CASE.pattern)) - reasons()) == []


def test_reasons_of_each_kind_are_found():
    """The search itself works: a condition's, an Event's, a problem's, a stuck pod's, and one that is put together."""
    assert {"ScaledToZero", "DrainCancelled", "EngineFlagInvalid", "ContainerConfig", "MetricsStale"} <= reasons()


def test_every_rule_of_a_decision_has_a_heading_and_no_other():
    floors = {"min_replicas", "schedule_floor", "max_replicas", "first_start", "woken"}
    downs = {"scale_down", "scale_to_zero", "scaled_to_zero"}
    checks = {check.__name__ for check in (*GUARDS, *CHECKS, *LAST_REPLICA_CHECKS)}
    ahead = {"feed_forward", "backlog"}
    rules = checks | floors | downs | ahead

    assert set(explained(r"[a-z]+(_[a-z]+)*")) == rules
    assert {rule.__name__ for rule in RULES} == {"guard_rules", "arrival_rules", "floor_rules", "stabilizer_rules"}, (
        "name its rules above"
    )


def test_no_heading_stands_twice():
    found = headings(PAGE)

    assert sorted({heading for heading in found if found.count(heading) > 1}) == []
