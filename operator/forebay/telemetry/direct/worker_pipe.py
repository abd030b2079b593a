"""What the operator and a scrape worker say to each other, and how it travels through the worker's pipes.

A message is pickled and preceded by its length. Both ends are processes of the same installation, so a message is never
of another version and never from anybody else.
"""

import asyncio
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from forebay.scaling.load.signals import PodSignals
from forebay.telemetry.direct.scraper import ScrapeSettings
from forebay.telemetry.scrape_statistics import ScrapeStatistics
from forebay.telemetry.signal_source import ScrapeTarget

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Start:
    """The first message to a worker."""

    url_template: str
    settings: ScrapeSettings


@dataclass(frozen=True, slots=True)
class Targets:
    """The engines that the worker scrapes from now on."""

    targets: tuple[ScrapeTarget, ...]


@dataclass(frozen=True, slots=True)
class News:
    """From a worker: what is new since its last message."""

    signals: Mapping[str, PodSignals]
    """By pod uid. `taken_at` is in seconds of the machine's monotonic clock, which all its processes share; only the
    operator knows the time of the API server."""
    statistics: ScrapeStatistics


Message = Start | Targets | News


def frame(message: Message) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """The next message; None when the other end has closed the pipe or has died."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        message: Message = pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message
