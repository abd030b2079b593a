"""The fast reader agrees with Prometheus' own parser on wanted series, and never returns a doubtful number."""

import math
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from forebay.telemetry.metric_catalogue import wire_names
from forebay.telemetry.text_format import MalformedMetrics, TextReader

SAMPLES = sorted((Path(__file__).parents[1] / "samples").glob("vllm-metrics-*.txt"))


def read(text: str, *names: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    readings = TextReader(names).read(text.encode())
    return {name: [(dict(reading.labels), reading.value) for reading in found] for name, found in readings.items()}


def by_the_reference(text: str, names: set[str]) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in names:
                found.setdefault(sample.name, []).append((sample.labels, float(sample.value)))
    return found


@pytest.mark.parametrize(
    ("text", "labels", "value"),
    [
        pytest.param("m 3\n", {}, 3.0, id="bare"),
        pytest.param("m{} 3\n", {}, 3.0, id="empty labels"),
        pytest.param('m{a="1",b="2"} 3\n', {"a": "1", "b": "2"}, 3.0, id="labels"),
        pytest.param('m{a="1",} 3\n', {"a": "1"}, 3.0, id="trailing comma"),
        pytest.param(' \tm { a = "1" , b = "2" } \t 3 \t\n', {"a": "1", "b": "2"}, 3.0, id="blanks everywhere"),
        pytest.param("m 3\r\n", {}, 3.0, id="carriage return before the line feed"),
        pytest.param("m 3 1764000000000\n", {}, 3.0, id="timestamp is left out"),
        pytest.param("m 1.5e-3\n", {}, 0.0015, id="negative exponent"),
        pytest.param("m 1.7959631976939e+09\n", {}, 1795963197.6939, id="positive exponent"),
        pytest.param("m -2\n", {}, -2.0, id="negative"),
        pytest.param("m +Inf\n", {}, math.inf, id="infinity"),
        pytest.param("m -Inf\n", {}, -math.inf, id="negative infinity"),
        pytest.param(r'm{a="x\"y"} 3' + "\n", {"a": 'x"y'}, 3.0, id="escaped quote"),
        pytest.param(r'm{a="x\\"} 3' + "\n", {"a": "x\\"}, 3.0, id="escaped backslash before the quote"),
        pytest.param(r'm{a="x\\n"} 3' + "\n", {"a": r"x\n"}, 3.0, id="backslash followed by an n"),
        pytest.param(r'm{a="x\ny"} 3' + "\n", {"a": "x\ny"}, 3.0, id="escaped line feed"),
        pytest.param('m{a="} 9 {",b="="} 3\n', {"a": "} 9 {", "b": "="}, 3.0, id="braces in a value"),
        pytest.param('m{a="modèle"} 3\n', {"a": "modèle"}, 3.0, id="not ASCII"),
    ],
)
def test_a_valid_line_is_parsed(text, labels, value):
    assert read(text, "m") == {"m": [(labels, value)]}


def test_nan_is_read_as_nan():
    [(_, value)] = read("m NaN\n", "m")["m"]

    assert math.isnan(value)


def test_only_the_names_asked_for_are_read():
    text = "# HELP m 1\n# TYPE m counter\n#m 9\nm_total 1\nm_created 2\nm_total_count 3\nam_total 4\nother junk here\n"

    assert read(text, "m_total") == {"m_total": [({}, 1.0)]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("m 3\nm 12", "its last line 'm 12' has no end", id="cut in a number"),
        pytest.param('m{a="1"} 3\nm{a="', "has no end", id="cut in a label"),
        pytest.param("m\n", "is not a series with a value", id="no value"),
        pytest.param('m{a="1"}\n', "is not a series with a value", id="labels and no value"),
        pytest.param("m three\n", "is not a number", id="text for a value"),
        pytest.param("m 1_000\n", "is not a number", id="digits grouped as Python does"),
        pytest.param("m 1 2 3\n", "is not a series with a value", id="more than a value and a time"),
        pytest.param("m 1 soon\n", "is not a series with a value", id="text for a time"),
        pytest.param('m{a="1" 3\n', "is not a series with a value", id="brace not closed"),
        pytest.param('m{a="1} 3\n', "is not a list of labels", id="quote not closed"),
        pytest.param("m{a=1} 3\n", "is not a list of labels", id="value without quotes"),
        pytest.param('m{a="1"b="2"} 3\n', "is not a list of labels", id="no comma"),
        pytest.param('m{a="1",a="2"} 3\n', "contains a label twice", id="label twice"),
        pytest.param('m{a="1"} 3\nm{a="1"} 4\n', "is a second value of the same series", id="series twice"),
    ],
)
def test_a_malformed_response_is_refused(text, message):
    with pytest.raises(MalformedMetrics, match=message):
        read(text, "m")


def test_labels_that_are_not_utf_8_are_refused():
    with pytest.raises(MalformedMetrics, match="is not UTF-8"):
        TextReader(["m"]).read(b'm{a="\xff"} 3\n')


def test_an_empty_answer_has_no_readings():
    assert read("", "m") == {}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_real_answers_read_as_prometheus_reads_them(path):
    text = path.read_text()
    names = set(wire_names())

    expected = by_the_reference(text, names)

    assert len(expected) > 10
    assert read(text, *names) == expected


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,6}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
LABEL_VALUES = st.text(alphabet=st.sampled_from('ab\\"\n{}=,# é0'), max_size=6)
NUMBERS = st.one_of(
    st.integers(-(10**6), 10**12).map(str),
    st.floats().map(repr),
    st.sampled_from(["+Inf", "-Inf", "NaN", "1e5", "1E-5", "+3", ".5", "5."]),
)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@st.composite
def lines(draw: st.DrawFn) -> str:
    blank = draw(st.sampled_from(["", "", " ", "\t"]))
    pairs = draw(st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=3))
    block = ",".join(f'{name}{blank}={blank}"{_escaped(value)}"' for name, value in pairs.items())
    comma = draw(st.sampled_from(["", ","])) if pairs else ""
    has_braces = bool(pairs) or draw(st.booleans())
    labels = f"{blank}{{{blank}{block}{comma}}}{blank}" if has_braces else ""
    time = draw(st.sampled_from(["", "", " 1764000000000"]))
    return f"{blank}{draw(NAMES)}{labels} {draw(NUMBERS)}{time}{blank}"


DOCUMENTS = st.lists(
    st.one_of(lines(), lines(), st.sampled_from(["", "# a comment", "# HELP x y", "# TYPE x gauge"])), max_size=8
).map(lambda found: "".join(f"{line}\n" for line in found))


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS)
@example('x{a="\\\\\\""} 1\n')
def test_documents_read_as_prometheus_reads_them(text):
    families = text_string_to_metric_families(text)
    expected = by_the_reference(text, {sample.name for family in families for sample in family.samples})
    for found in expected.values():
        assume(len({tuple(sorted(labels.items())) for labels, _ in found}) == len(found))

    assert repr(read(text, *expected)) == repr(expected)  # by text, in which NaN equals NaN


@settings(max_examples=300, deadline=None)
@given(DOCUMENTS.filter(bool), st.data())
def test_a_response_truncated_inside_a_line_is_refused(text, data):
    cut = text.encode()[: data.draw(st.integers(1, len(text.encode()) - 1))] if len(text.encode()) > 1 else b"m"
    assume(not cut.endswith(b"\n"))

    with pytest.raises(MalformedMetrics):
        TextReader(["m"]).read(cut)


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(
            st.sampled_from([b"m", b"{", b"}", b'"', b"\\", b"a", b"=", b",", b" ", b"\n", b"1", b"e", b"\xc3", b"_"])
        )
        .map(b"".join)
        .map(lambda junk: b"m" + junk + b"\n"),
    )
)
def test_random_bytes_raise_only_malformed_metrics(body):
    try:
        readings = TextReader(["m"]).read(body)
    except MalformedMetrics:
        return
    assert set(readings) <= {"m"}
