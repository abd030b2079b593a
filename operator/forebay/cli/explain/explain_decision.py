"""Describes the decision of a service: its inputs, the proposal of every rule, what would change it, and what is next.

Everything is read from `status.decision` and `status.decisions`. No rule is known by name, so a new rule is shown like
all others.
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
_AGE: Final = re.compile(r"([0-9]{1,6})(s|m|h|d)")
_NUMBER_AND_UNIT: Final = re.compile(r"([0-9]) (%|ms|s|h|d|min|replicas?|requests?)(?![a-z])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


_SHOWN_ELSEWHERE: Final = ("rule.", "bounds", "serving", "loading")
"""Inputs that the first line and the table of rules show."""


class TimeFormatError(ValueError):
    """The text of `--at` is neither a time nor an age."""


def time_of(text: str, now: float) -> float:
    """Unix seconds of an RFC 3339 time, or of an age such as 90s, 10m, 2h or 1d. Raises TimeFormatError."""
    if match := _AGE.fullmatch(text):
        return now - int(match[1]) * _UNIT_SECONDS[match[2]]
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise TimeFormatError(
            f'"{text}" is neither a time with a zone, such as 2026-03-01T12:00:00Z, nor an age such as 10m'
        )
    return at.timestamp()


def decision_lines(status: InferenceServiceStatus, mode: str, now: float) -> Iterator[str]:
    """The current decision with its inputs, the proposals, the turning points and the earlier decisions."""
    decision = status.decision
    if decision is None:
        yield "Nothing has been decided yet; the conditions say why."
        return
    yield from _why(decision, status, mode, now)
    yield from _numbers(decision, now)
    yield from _rules(decision)
    yield from _listed("What would raise it", decision.would_raise)
    yield from _lowering(decision)
    if decision.upcoming:
        yield ""
        yield "What comes next"
    for event in decision.upcoming:
        yield from wrapped(event.what, f"  {when(event.at, now)}  " if event.at else "  ")
    yield from _earlier(status.decisions, now)


def past_lines(past: Sequence[PastDecision], at: float, now: float) -> Iterator[str]:
    """The decision in force at a time, as far as the status keeps it, and the decisions after it."""
    known = [decision for decision in past if _unix(decision.at) <= at]
    time = stamp(at)
    if not known:
        oldest = f"the oldest decision kept is from {past[0].at}" if past else "no decision is kept"
        yield f"The decision at {time} is no longer known: {oldest}."
        return
    decision = known[-1]
    yield f"At {time} ({age(now - at)} ago)"
    wanted = f"{_count(decision.replicas, 'replica')} wanted, by {decision.rule} since {decision.at}"
    yield f"  {wanted}; {decision.ready} ready at the time."
    if decision.desired != decision.replicas:
        yield f"  {_count(decision.desired, 'replica')} advised; the scaling mode did not act on load."
    yield from wrapped(decision.because, "  ")
    after = [later for later in past if _unix(later.at) > at]
    if after:
        yield ""
        yield "Afterwards"
    for later in after:
        yield from _past(later, now)


def _why(decision: DecisionStatus, status: InferenceServiceStatus, mode: str, now: float) -> Iterator[str]:
    advice = mode != "Auto"
    last = status.decisions[-1] if status.decisions else None
    since = f" (since {last.at}, {age(now - _unix(last.at))} ago)" if last and last.rule == decision.rule else ""
    yield f"Why {decision.desired}{' is advised' if advice else ''}: {decision.rule}{since}"
    yield from wrapped(f"{decision.because}.", "  ")
    waiting = [p for p in decision.proposals if p.waits_for and p.replicas > decision.desired]
    if waiting:
        most = max(waiting, key=lambda p: p.replicas)
        text = f"{most.rule} asks for {most.replicas}, but does not count yet: {most.waits_for}."
        yield from wrapped(text, "  ")
    if advice:
        yield f"  scaling.mode is {mode}, so this is only advice; the replica count stays at {status.replicas.desired}."


def _numbers(decision: DecisionStatus, now: float) -> Iterator[str]:
    inputs = {name: value for name, value in decision.inputs.items() if not name.startswith(_SHOWN_ELSEWHERE)}
    signals = decision.signals
    if signals is not None:
        inputs.pop("metrics", None)
        yield ""
        yield from wrapped(f"Signals: {_signals(signals, now)}", "", "  ")
    width = max((len(name) for name in inputs), default=0)
    for name, value in sorted(inputs.items()):
        yield from wrapped(value, f"  {name:<{width}}  ")


def _signals(signals: SignalsStatus, now: float) -> str:
    """State and age of the metrics behind the numbers."""
    within = f"reported metrics within the last {signals.fresh_seconds} s"
    if signals.serving == 0:
        return "none, since no replica is known to serve."
    if signals.silent_since is None and signals.answering == signals.serving:
        replicas = "the one serving replica" if signals.serving == 1 else f"all {signals.serving} serving replicas"
        return f"{signals.state}; {replicas} {within}."
    answers = f"{signals.answering} of {_count(signals.serving, 'replica')} {within}"
    if signals.silent_since is None:
        return f"{signals.state}; {answers}, and the others have just started to serve."
    longest = f"the longest gap is {age(now - _unix(signals.silent_since))}"
    return f"{signals.state}; {answers}, and {longest}. Nothing is scaled down until all report."


def _rules(decision: DecisionStatus) -> Iterator[str]:
    if not decision.proposals:
        return
    yield ""
    yield "What each rule asks for; the largest that counts is chosen (>)"
    width = max(len(proposal.rule) for proposal in decision.proposals)
    binding = _binding(decision)
    for proposal in sorted(decision.proposals, key=lambda p: (p is not binding, bool(p.waits_for), -p.replicas)):
        mark = ">" if proposal is binding else "-" if proposal.waits_for else " "
        waits = f" Does not count yet: {proposal.waits_for}." if proposal.waits_for else ""
        yield from wrapped(f"{proposal.because}.{waits}", f"{mark} {proposal.rule:<{width}} {proposal.replicas:>4}  ")


def _binding(decision: DecisionStatus) -> ProposalStatus | None:
    """The first of the largest proposals that count, which is the one the decision chooses."""
    counted = [proposal for proposal in decision.proposals if not proposal.waits_for]
    return max(counted, key=lambda proposal: proposal.replicas, default=None)


def _lowering(decision: DecisionStatus) -> Iterator[str]:
    """What would lower the count; the lines after one that ends with a colon are its list."""
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
    """A time of the status and its distance from now; with the date only when it is not today."""
    seconds = _unix(at) - now
    short = at.partition("T")[2] if at.partition("T")[0] == stamp(now).partition("T")[0] else at
    return f"{short} (in {age(seconds)})" if seconds > 0 else f"{short} ({age(-seconds)} ago)"


def age(seconds: float) -> str:
    """A duration in one unit, as kubectl writes ages."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def wrapped(text: str, first: str, rest: str | None = None) -> list[str]:
    """The text in lines of `WIDTH`; lines after the first are indented to the text."""
    indent = " " * len(first) if rest is None else rest
    width = max(WIDTH, len(first) + 60)
    unbroken = _NUMBER_AND_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text)
    lines = textwrap.wrap(unbroken, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def stamp(at: float) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _unix(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
