"""Parsing of lists, watch events and times; an unreadable object affects no other object."""

import json
import time

import pytest

from forebay.api.instants import micro_time
from forebay.cluster.read.projections import PodObject, Reader, continue_token, unix_seconds

READER = Reader(PodObject)


def a_page(*items: object, **metadata: str) -> bytes:
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7", **metadata}, "items": items}).encode()


def an_item(name: str = "a", **more: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "5"}, **more}


def test_pages_become_one_list():
    listed = READER.listed([a_page(an_item("a")), a_page(an_item("b"), resourceVersion="8")])
    assert [pod.metadata.name for pod in listed.items] == ["a", "b"]
    assert (listed.resource_version, listed.unreadable) == ("8", ())


@pytest.mark.parametrize("items", [pytest.param(b"null", id="null"), pytest.param(b"[]", id="empty")])
def test_an_empty_list(items):
    listed = READER.listed([b'{"metadata":{"resourceVersion":"7"},"items":' + items + b"}"])
    assert (listed.items, listed.resource_version) == ((), "7")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(
            {"metadata": {}}, "an object without a name cannot be read: metadata.name: Field required", id="no name"
        ),
        pytest.param(7, "an object without a name cannot be read", id="a number"),
        pytest.param(
            an_item("b", spec={"containers": "x"}), "team/b cannot be read: spec.containers", id="a wrong type"
        ),
    ],
)
def test_a_bad_object_is_named_and_the_rest_is_read(bad, message):
    listed = READER.listed([a_page(an_item("a"), bad, an_item("c"))])
    assert [pod.metadata.name for pod in listed.items] == ["a", "c"]
    assert [str(fault)[: len(message)] for fault in listed.unreadable] == [message]
    assert listed.resource_version == "7"


@pytest.mark.parametrize("page", [b"", b"<html>", b"[]", b"null"])
def test_a_page_that_is_not_a_list_is_an_error(page):
    with pytest.raises(ValueError, match=r".+"):
        READER.listed([page])


def test_null_and_absent_fields_are_alike():
    nothing = {"containers": None, "nodeName": None}
    pod = READER.one(json.dumps(an_item(spec=nothing, status={"conditions": None, "podIP": None})).encode())
    assert pod.spec.containers is None
    assert pod == READER.one(json.dumps(an_item(spec={}, status={})).encode())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param({"type": "DELETED", "object": an_item()}, ("DELETED", "a", "", 0, ""), id="an object"),
        pytest.param(
            {
                "type": "BOOKMARK",
                "object": {"kind": "Pod", "metadata": {"resourceVersion": "9", "creationTimestamp": None}},
            },
            ("BOOKMARK", None, "9", 0, ""),
            id="a bookmark has only a version",
        ),
        pytest.param(
            {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}},
            ("ERROR", None, "", 410, "too old"),
            id="an error",
        ),
        pytest.param({"type": "ERROR"}, ("ERROR", None, "", 0, ""), id="an error without words"),
    ],
)
def test_watch_events_are_parsed(line, expected):
    event = READER.event(json.dumps(line).encode())
    name = event.object.metadata.name if event.object else None
    assert (event.type, name, event.resource_version, event.code, event.message) == expected


def test_an_event_about_an_unreadable_object_keeps_its_version():
    event = READER.event(json.dumps({"type": "MODIFIED", "object": an_item(status=3)}).encode())
    assert (event.resource_version, event.object, event.unreadable and event.unreadable.uid) == ("5", None, "uid-a")


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"object":{}}', b'{"type":7}'])
def test_invalid_watch_events_are_errors(line):
    with pytest.raises(ValueError, match=r".+"):
        READER.event(line)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:01:00Z", 60.0, id="seconds"),
        pytest.param("1970-01-01T00:01:00.250000Z", 60.25, id="microseconds"),
        pytest.param("1970-01-01T01:01:00+01:00", 60.0, id="an offset"),
        pytest.param("yesterday", None, id="no time"),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="none"),
    ],
)
def test_rfc_3339_times_become_unix_seconds(text, seconds):
    assert unix_seconds(text) == seconds


def test_a_micro_time_reads_back_unchanged():
    assert unix_seconds(micro_time(1_700_000_000.123456)) == 1_700_000_000.123456
    assert micro_time(0.0) == "1970-01-01T00:00:00.000000Z"


def test_the_token_of_the_next_page():
    assert continue_token(a_page(**{"continue": "abc"})) == "abc"
    assert continue_token(a_page(an_item())) == ""


@pytest.mark.alone
def test_1600_pods_are_read_well_within_a_tick():
    """The CPU time of the best of three runs, since the machine may be busy; about 0.06 s on two cores."""
    container = {"name": "engine", "args": ["--flag=value"] * 20, "env": [{"name": "a", "value": "b"}] * 20}
    conditions = [
        {"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    pod = an_item(
        spec={"nodeName": "n", "containers": [container], "volumes": [{"name": "v", "emptyDir": {}}] * 6},
        status={"phase": "Running", "conditions": conditions},
    )
    pages = [a_page(*[pod] * 400)] * 4
    spent = []
    for _ in range(3):
        begun = time.process_time()
        assert len(READER.listed(pages).items) == 1600
        spent.append(time.process_time() - begun)
    assert min(spent) < 0.2
