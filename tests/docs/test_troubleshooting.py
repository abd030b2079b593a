"""Every reason has a heading in the troubleshooting guide, and every heading has a reason."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from forebay.api.reasons import Reason
from forebay.planner.memory import SentEvent
from forebay.planner.observe.replicas import REVISION_FAULTS, SHORTAGE_REASONS, Finding, Replica
from forebay.planner.reconcile import steps
from forebay.planner.report.conditions import ConditionAnswer
from forebay.scaling.desired import RULES
from forebay.scaling.rules.guards import GUARDS
from forebay.scaling.rules.last_replica import CHECKS as LAST_REPLICA_CHECKS
from forebay.scaling.rules.stabilizer import CHECKS
from forebay.world.plan import EventRecord
from forebay.world.world import PodView, SpecProblem
from tests.docs.documents import DOCS, ROOT, headings

PAGE = "troubleshooting.md"
CAMEL_CASE = r"(?:[A-Z][a-z]+)+"
OF_REPLICAS = {reason for reason in Reason if reason.startswith("Replica")} - {Reason.REPLICA_ADOPTED}
"""Events that are explained under the reason behind the word `Replica`."""


def explained(pattern: str) -> list[str]:
    return [heading for heading in headings(PAGE) if re.fullmatch(pattern, heading)]


def test_every_reason_has_a_heading_and_no_other():
    assert set(Reason) - OF_REPLICAS == set(explained(CAMEL_CASE))


def test_reasons_are_camel_case():
    assert [reason for reason in Reason if not re.fullmatch(CAMEL_CASE, reason)] == []


def test_every_reason_is_used():
    """An unused reason would have a page for something that cannot happen."""
    package = ROOT / "operator" / "forebay"
    source = "\n".join(path.read_text() for path in package.rglob("*.py") if path.name != "reasons.py")
    given = set(re.findall(r"\bReason\.([A-Z_]+)\b", source))

    assert [reason for reason in Reason if reason.name not in given and reason not in OF_REPLICAS] == []


@pytest.mark.parametrize(
    ("takes", "name"),
    [
        (ConditionAnswer, "reason"),
        (EventRecord, "reason"),
        (Finding, "reason"),
        (SentEvent, "reason"),
        (PodView, "blocked"),
        (SpecProblem, "reason"),
        (Replica, "reason"),
        (steps.normal, "reason"),
        (steps.warning, "reason"),
    ],
)
def test_conditions_and_events_are_created_from_a_reason(takes: object, name: str):
    """So the type checker refuses a literal that is not in the enum."""
    hint = get_type_hints(takes)[name]

    assert {*(get_args(hint) or (hint,))} - {type(None)} == {Reason}


def section_of_part(title: str) -> set[str]:
    """Headings of the second level under one of the first."""
    text = (DOCS / Path(PAGE)).read_text().split(f"\n# {title}\n", 1)[1].split("\n# ", 1)[0]
    return set(re.findall(r"(?m)^## (.+)$", text))


def test_every_removal_reason_has_an_event():
    stuck = {*SHORTAGE_REASONS, *REVISION_FAULTS, Reason.STALLED}
    gone = section_of_part("Why a replica is removed") | {Reason.NO_ROOM, Reason.VARIANT_RETURN}
    events = {Reason(reason).of_replica for reason in stuck | gone}

    assert events == OF_REPLICAS


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


def test_no_heading_appears_twice():
    found = headings(PAGE)

    assert sorted({heading for heading in found if found.count(heading) > 1}) == []
