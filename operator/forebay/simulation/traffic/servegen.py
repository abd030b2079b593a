"""Traffic from ServeGen's client models: many clients, each with its own rate, burstiness and lengths.

It reads the archives that alibaba/ServeGen publishes. `<client>-trace.csv` has a row for every ten minutes: start,
requests a second, coefficient of variation, and the distribution (Gamma or Weibull, with shape and scale) of the times
between arrivals. `<client>-dataset.json` has, for every six hours, the frequency of each number of prompt and answer
tokens.

Arrivals inside a window are drawn from the model, not recorded. `Trace.method` states what had to be filled in.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np

from forebay.simulation.traffic.trace_file import TraceError
from forebay.simulation.traffic.traces import Floats, Integers, Trace

WINDOW_SECONDS: Final = 600.0
LENGTHS_SECONDS: Final = 21_600.0
NAMED_TENANTS: Final = 5
"""The largest clients are tenants of their own; the others share one."""
REST: Final = "rest"


@dataclass(frozen=True, slots=True)
class ClientWindow:
    """The arrival model of one client for ten minutes."""

    rate: float
    """Requests a second."""
    family: str
    """Distribution of the times between arrivals: Gamma, Weibull, or empty for exponential."""
    shape: float
    scale: float


@dataclass(frozen=True, slots=True)
class ClientLengths:
    """Frequency of each number of tokens."""

    tokens: Integers
    shares: Floats

    def draw(self, draw: np.random.Generator, count: int) -> Integers:
        return draw.choice(self.tokens, size=count, p=self.shares)


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    windows: Mapping[int, ClientWindow]
    """Windows by the second at which they begin."""
    prompts: Mapping[int, ClientLengths]
    """Prompt lengths by the second at which their six hours begin; spans without data are missing."""
    outputs: Mapping[int, ClientLengths]
    """Answer lengths, likewise."""

    def requests(self) -> float:
        return sum(window.rate for window in self.windows.values())


def read_clients(traces: Path, datasets: Path) -> tuple[Client, ...]:
    """All clients, the largest first. Raises TraceError and OSError."""
    rates, lengths = _members(traces, "-trace.csv"), _members(datasets, "-dataset.json")
    if not rates:
        raise TraceError(f"{traces.name}: no member ends in -trace.csv; use an archive of ServeGen's client windows")
    clients = []
    for name, content in sorted(rates.items()):
        data = json.loads(lengths[name]) if name in lengths else {}
        clients.append(
            Client(
                name=name,
                windows=_windows(name, content),
                prompts=_lengths(data, "input_tokens"),
                outputs=_lengths(data, "output_tokens"),
            )
        )
    return tuple(sorted(clients, key=lambda client: (-client.requests(), client.name)))


def servegen(
    clients: Sequence[Client], name: str, start: float, end: float, *, share: float, seed: int, digest: str = ""
) -> Trace:
    """A trace of the seconds [start, end), each request kept with probability `share`.

    A window in which no client has a request is a gap in the collection; the window before it is used again. A client
    without lengths uses those of another client.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share: {share} is not between 0 and 1; it is the part of the requests that is kept")
    first = int(start // WINDOW_SECONDS * WINDOW_SECONDS)
    begins = range(first, int(np.ceil(end / WINDOW_SECONDS) * WINDOW_SECONDS), int(WINDOW_SECONDS))
    sources, filled = _sources(clients, begins)
    donors = [client for client in clients if client.prompts and client.outputs]
    if not donors:
        raise TraceError(f"{name}: no client has lengths; give the dataset archive of the same model")
    times, prompts, outputs, tenants = [], [], [], []
    for number, client in enumerate(clients):
        draw = np.random.default_rng([seed, 4, number])
        donor = client if client.prompts and client.outputs else donors[number % len(donors)]
        for begin in begins:
            window = client.windows.get(sources[begin])
            if window is None or window.rate <= 0:
                continue
            arrivals = begin + _arrivals(draw, window)
            arrivals = arrivals[draw.random(len(arrivals)) < share]
            arrivals = arrivals[(arrivals >= start) & (arrivals < end)]
            times.append(arrivals - start)
            prompts.append(_nearest(donor.prompts, begin).draw(draw, len(arrivals)))
            outputs.append(_nearest(donor.outputs, begin).draw(draw, len(arrivals)))
            tenants.append(np.full(len(arrivals), min(number, NAMED_TENANTS), dtype=np.int64))
    order = np.argsort(np.concatenate(times), kind="stable") if times else np.zeros(0, dtype=np.int64)
    without_lengths = sum(client not in donors for client in clients)
    repairs = (
        f"{without_lengths} clients have no lengths and take another's; "
        f"{filled} windows without any request are filled with the one before"
    )
    return Trace(
        name=name,
        times=_ordered(times, order, np.float64),
        prompt_tokens=_ordered(prompts, order, np.int64).clip(1),
        output_tokens=_ordered(outputs, order, np.int64).clip(1),
        tenants=_ordered(tenants, order, np.int64),
        tenant_names=(*(client.name for client in clients[:NAMED_TENANTS]), REST)[: len(clients[:NAMED_TENANTS]) + 1],
        sha256=digest,
        method=(
            f"drawn from {len(clients)} clients' models, seed {seed}, each request kept with probability {share:.4g}",
            repairs,
        ),
    )


def digest_of(*paths: Path) -> str:
    """One SHA-256 over several archives, in the order given."""
    total = sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def _members(path: Path, suffix: str) -> dict[str, str]:
    """The text of an archive's members, by client."""
    texts = {}
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(suffix) else None
            if content is not None:
                texts[Path(member.name).name.removesuffix(suffix)] = content.read().decode()
    return texts


def _windows(client: str, content: str) -> dict[int, ClientWindow]:
    windows = {}
    for line, row in enumerate(csv.reader(io.StringIO(content)), start=1):
        try:
            begin, rate, _, family, shape, scale = row
            windows[int(float(begin))] = ClientWindow(float(rate), family, float(shape or 0), float(scale or 0))
        except ValueError as error:
            raise TraceError(f"{client}: line {line}: {error}; six columns are expected") from error
    return windows


def _lengths(data: Mapping[str, Mapping[str, str]], column: str) -> dict[int, ClientLengths]:
    """Lengths by begin of their six hours. The counts are Python literals; they are parsed, never executed."""
    lengths = {}
    for begin, columns in data.items():
        counts: dict[int, float] = literal_eval(columns.get(column) or "{}")
        if counts:
            tokens = np.array(sorted(counts), dtype=np.int64)
            shares = np.array([counts[number] for number in tokens.tolist()], dtype=np.float64)
            lengths[int(begin)] = ClientLengths(tokens, shares / shares.sum())
    return lengths


def _nearest(by_begin: Mapping[int, ClientLengths], begin: float) -> ClientLengths:
    """The lengths of the six hours that contain `begin`, or of the nearest six hours that have data."""
    span_begin = begin // LENGTHS_SECONDS * LENGTHS_SECONDS
    return by_begin[min(by_begin, key=lambda candidate: (abs(candidate - span_begin), candidate))]


def _sources(clients: Sequence[Client], begins: range) -> tuple[dict[int, int], int]:
    """The window that each window is drawn from, and the number of windows that had to be filled."""
    sources: dict[int, int] = {}
    filled, last = 0, None
    for begin in begins:
        if any((window := client.windows.get(begin)) and window.rate > 0 for client in clients):
            last = begin
        elif last is not None:
            filled += 1
        sources[begin] = begin if last is None else last
    return sources, filled


def _arrivals(draw: np.random.Generator, window: ClientWindow) -> Floats:
    """Arrival times of one client, in seconds since its window began."""
    times: list[Floats] = []
    last = 0.0
    while last < WINDOW_SECONDS:
        count = int((WINDOW_SECONDS - last) * window.rate * 1.2) + 16
        between = _between(draw, window, count)
        chunk = last + np.cumsum(between)
        times.append(chunk)
        last = float(chunk[-1])
    arrivals = np.concatenate(times)
    return arrivals[arrivals < WINDOW_SECONDS]


def _between(draw: np.random.Generator, window: ClientWindow, count: int) -> Floats:
    if window.family == "Gamma" and window.shape > 0 and window.scale > 0:
        return draw.gamma(window.shape, window.scale, count)
    if window.family == "Weibull" and window.shape > 0 and window.scale > 0:
        return window.scale * draw.weibull(window.shape, count)
    return draw.exponential(1 / window.rate, count)


def _ordered(parts: Sequence[np.ndarray], order: Integers, kind: type) -> np.ndarray:
    return np.concatenate(parts)[order] if parts else np.zeros(0, dtype=kind)
