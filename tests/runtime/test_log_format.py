import io
import json
import logging

import pytest

from forebay.runtime.log_format import LogFormat, LogLevel, configure


@pytest.fixture(autouse=True)
def _root_logger_as_before():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_json_line_has_the_fixed_keys_and_what_the_call_added():
    stream = io.StringIO()
    configure(LogLevel.INFO, LogFormat.JSON, stream)
    logging.getLogger("forebay.x").info("%s wants %d", "chat", 3, extra={"service": "a/chat", "rule": "queue_depth"})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "forebay.x",
        "message": "chat wants 3",
        "service": "a/chat",
        "rule": "queue_depth",
    }


def test_an_exception_stays_one_json_line():
    stream = io.StringIO()
    configure(LogLevel.INFO, LogFormat.JSON, stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("forebay.x").exception("tick failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: two\nlines")


def test_plain_lines_carry_the_extras_too():
    stream = io.StringIO()
    configure(LogLevel.INFO, LogFormat.PLAIN, stream)
    logging.getLogger("forebay.x").warning("held", extra={"service": "a/chat"})
    assert stream.getvalue().rstrip().endswith("WARNING held service=a/chat")


def test_lines_below_the_level_are_not_written():
    stream = io.StringIO()
    configure(LogLevel.WARNING, LogFormat.PLAIN, stream)
    logging.getLogger("forebay.x").info("not this")
    assert stream.getvalue() == ""


def test_levels_of_libraries_are_raised():
    stream = io.StringIO()
    configure(LogLevel.DEBUG, LogFormat.PLAIN, stream, library_levels={"kopf.objects": logging.WARNING})
    for name in ("aiohttp.access", "kopf.objects"):
        logging.getLogger(name).info("Handler 'wake' succeeded.")
        logging.getLogger(name).warning("Handler 'wake' failed.")
    assert [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()] == ["Handler 'wake' failed."] * 2
