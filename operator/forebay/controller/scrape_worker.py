"""The process of a scrape worker: `python -m forebay.controller.scrape_worker LEVEL FORMAT`, started by the operator.

Its standard input and output are the pipes to the operator; what it logs goes where the operator logs.
"""

import asyncio
import os
import signal
import sys
from asyncio.streams import FlowControlMixin

from forebay.runtime.log_format import LogFormat, LogLevel, configure
from forebay.telemetry.direct.worker import work


def command(level: LogLevel, log_format: LogFormat) -> tuple[str, ...]:
    """Starts a worker that logs as the operator does."""
    return (sys.executable, "-m", __name__, level.value, log_format.value)


def main(level: str, log_format: str) -> None:
    # The signals that end the operator may reach its whole process group. The worker ends when the operator has closed
    # the pipe, after its last tick.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that nothing that is printed ends up between the messages
    configure(LogLevel(level), LogFormat(log_format))
    asyncio.run(_serve(answers))


async def _serve(answers: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(answers, "wb"))
    transport.set_write_buffer_limits(high=0)
    await work(reader, asyncio.StreamWriter(transport, protocol, None, loop))


if __name__ == "__main__":
    main(*sys.argv[1:])
