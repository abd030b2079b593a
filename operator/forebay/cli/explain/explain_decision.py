"""The decision of a service in words: what it rests on, what every rule asked for, what would change it, what is next.

Everything here is read from `status.decision` and `status.decisions`; no rule is known by name, so a new one is shown
like the others.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from forebay.api.inference_service import DecisionStatus, InferenceServiceStatus
from forebay.api.status import PastDecision, ProposalStatus, SignalsStatus

WIDTH: Final = 100
MOST_EARLIER: Final = 5
_AGO: Final = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_NUMBER_AND_UNIT: Final = re.compile(r"([0-9]) (%|ms|s|h|d|min|replicas?|requests?)(?![a-z])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


_SAID_ELSEWHERE: Final = ("rule.", "bounds", "serving", "loading")
"""Inputs that the first line and the table of rules show."""


class NotAMomentError(ValueError):
    """What was given with --at is neither a time nor an age."""


def moment(given: str, now: float) -> float:
    """Unix seconds of an RFC 3339 time, or of an age such as 90s, 10m, 2h or 1d. Raises NotAMomentError."""
    if ago := _AGO.fullmatch(given):
        return now - int(ago[1]) * _UNIT_SECONDS[ago[2]]
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise NotAMomentError(
            f'"{given}" is neither a time with its zone, such as 2026-03-01T12:00:00Z, nor an age such as 10m'
        )
    return at.timestamp()


def decision_lines(status: InferenceServiceStatus, mode: str, now: float) -> Iterator[str]:
    decision = status.decision
    if decision is None:
        yield "Nothing has been decided yet; the conditions say what is in the way."
        return
    yield from _why(decision, status, mode, now)
    yield from _numbers(decision, now)
    yield from _rules(decision)
    yield from _listed("What would raise it", decision.would_raise)
    yield from _lowering(decision)
    if decision.upcoming:
        yield ""
        yield "What comes next"
    for due in decision.upcoming:
        yield from wrapped(due.what, f"  {when(due.at, now)}  " if due.at else "  ")
    yield from _earlier(status.decisions, now)


def past_lines(past: Sequence[PastDecision], at: float, now: float) -> Iterator[str]:
    """What held at a moment, as far as the ring reaches, and what came after it."""
    known = [decision for decision in past if _unix(decision.at) <= at]
    asked = stamp(at)
    if not known:
        oldest = f"the oldest that is kept is of {past[0].at}" if past else "none is kept"
        yield f"What was decided at {asked} is not known any more: {oldest}."
        return
    held = known[-1]
    yield f"At {asked} ({age(now - at)} ago)"
    yield f"  {_count(held.replicas, 'replica')} wanted, by {held.rule} since {held.at}; {held.ready} ready then."
    if held.desired != held.replicas:
        yield f"  {_count(held.desired, 'replica')} would have been right: the mode of scaling only advised."
    yield from wrapped(held.because, "  ")
    after = [decision for decision in past if _unix(decision.at) > at]
    if after:
        yield ""
        yield "After that"
    for decision in after:
        yield from _past(decision, now)


def _why(decision: DecisionStatus, status: InferenceServiceStatus, mode: str, now: float) -> Iterator[str]:
    advice = mode != "Auto"
    last = status.decisions[-1] if status.decisions else None
    since = f" (since {last.at}, {age(now - _unix(last.at))} ago)" if last and last.rule == decision.rule else ""
    yield f"Why {decision.desired}{' would be right' if advice else ''}: {decision.rule}{since}"
    yield from wrapped(f"{decision.because}.", "  ")
    waiting = [p for p in decision.proposals if p.waits_for and p.replicas > decision.desired]
    if waiting:
        most = max(waiting, key=lambda p: p.replicas)
        text = f"Not more yet: {most.rule} asks for {most.replicas}, and waits: {most.waits_for}."
        yield from wrapped(text, "  ")
    if advice:
        yield f"  scaling.mode is {mode}, so load only advises; the number stays at {status.replicas.desired}."


def _numbers(decision: DecisionStatus, now: float) -> Iterator[str]:
    inputs = {name: value for name, value in decision.inputs.items() if not name.startswith(_SAID_ELSEWHERE)}
    signals = decision.signals
    if signals is not None:
        inputs.pop("metrics", None)
        yield ""
        yield from wrapped(f"Signals: {_heard(signals, now)}", "", "  ")
    width = max((len(name) for name in inputs), default=0)
    for name, value in sorted(inputs.items()):
        yield from wrapped(value, f"  {name:<{width}}  ")


def _heard(signals: SignalsStatus, now: float) -> str:
    """State and age of what the numbers rest on."""
    within = f"gave metrics within the last {signals.fresh_seconds} s"
    if signals.serving == 0:
        return "none, since no replica is known to serve."
    if signals.silent_since is None and signals.answering == signals.serving:
        which = (
            "the one replica that serves"
            if signals.serving == 1
            else f"each of the {signals.serving} replicas that serve"
        )
        return f"{signals.state}; {which} {within}."
    told = f"{signals.answering} of {_count(signals.serving, 'replica')} {within}"
    if signals.silent_since is None:
        return f"{signals.state}; {told}, and the others have just begun to serve."
    silence = f"the longest silence has lasted for {age(now - _unix(signals.silent_since))}"
    return f"{signals.state}; {told}, and {silence}. Until all do, nothing is scaled down."


def _rules(decision: DecisionStatus) -> Iterator[str]:
    if not decision.proposals:
        return
    yield ""
    yield "What each rule asks for; the largest that counts binds (>)"
    width = max(len(proposal.rule) for proposal in decision.proposals)
    bound = _bound(decision)
    for proposal in sorted(decision.proposals, key=lambda p: (p is not bound, bool(p.waits_for), -p.replicas)):
        mark = ">" if proposal is bound else "-" if proposal.waits_for else " "
        waits = f" Does not count yet: {proposal.waits_for}." if proposal.waits_for else ""
        yield from wrapped(f"{proposal.because}.{waits}", f"{mark} {proposal.rule:<{width}} {proposal.replicas:>4}  ")


def _bound(decision: DecisionStatus) -> ProposalStatus | None:
    """The first of the largest that count, as the decision itself chooses."""
    counted = [proposal for proposal in decision.proposals if not proposal.waits_for]
    return max(counted, key=lambda proposal: proposal.replicas, default=None)


def _lowering(decision: DecisionStatus) -> Iterator[str]:
    """A line that ends with a colon opens a list."""
    if not decision.would_lower:
        return
    yield ""
    yield "What would lower it"
    opened = False
    for line in decision.would_lower:
        yield from wrapped(line, "    - " if opened else "  ")
        opened = opened or line.endswith(":")


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
            yield title
        yield from wrapped(line, "  ")


def _earlier(past: Sequence[PastDecision], now: float) -> Iterator[str]:
    if len(past) < 2:
        return
    yield ""
    yield "Last decisions (more with --at TIME)"
    for decision in past[-MOST_EARLIER:][::-1]:
        yield from _past(decision, now)


def _past(decision: PastDecision, now: float) -> Iterator[str]:
    step = f"{decision.before} -> {decision.replicas}" if decision.before != decision.replicas else decision.replicas
    advice = f" ({decision.desired} advised)" if decision.desired != decision.replicas else ""
    yield from wrapped(f"{step}{advice}  {decision.rule}: {decision.because}", f"  {when(decision.at, now)}  ")


def when(at: str, now: float) -> str:
    """A time of status with its distance from now; the day only where it is another one."""
    seconds = _unix(at) - now
    short = at.partition("T")[2] if at.partition("T")[0] == stamp(now).partition("T")[0] else at
    return f"{short} (in {age(seconds)})" if seconds > 0 else f"{short} ({age(-seconds)} ago)"


def age(seconds: float) -> str:
    """As kubectl writes ages, one unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    """Lines that people can read; those after the first stand under the text."""
    indent = " " * len(first) if rest is None else rest
    width = max(WIDTH, len(first) + 60)
    together = _NUMBER_AND_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text)
    lines = textwrap.wrap(together, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def stamp(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unix(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
