import logging

import pytest
from prometheus_client import CollectorRegistry, Gauge

from forebay.controller.tick_log import UnreadableLog


def test_an_unreadable_object_is_logged_once_and_again_after_it_recovered(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    registry = CollectorRegistry()
    unreadable = UnreadableLog(Gauge("unreadable", "For the test.", registry=registry))
    for problems in (
        ("Pod a cannot be read",),
        ("Pod a cannot be read", "Pod b cannot be read"),
        (),
        ("Pod a cannot be read",),
    ):
        unreadable.note(problems)
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        "Pod a cannot be read",
        "Pod b cannot be read",
        "Pod a cannot be read",
    ]
    assert registry.get_sample_value("unreadable") == 1.0
