"""An engine upgrade renames series: the catalogue expects the name of the version, and looks for all names."""

import pytest

from forebay.scaling.load.signals import EngineSample
from forebay.telemetry.metric_catalogue import ALL_WAITING, SIGNALS, catalogue_for, wire_names


@pytest.mark.parametrize(
    ("version", "known"),
    [
        pytest.param("0.10.2", True, id="oldest"),
        pytest.param("0.32.0", True, id="supported"),
        pytest.param("v0.33.0", True, id="with a v"),
        pytest.param("0.32.0+cpu", True, id="local build"),
        pytest.param("0.33.0rc1", True, id="release candidate"),
        pytest.param("0.32", True, id="no patch"),
        pytest.param("0.34.0", False, id="newer than the catalogue"),
        pytest.param("1.0.0", False, id="next major"),
        pytest.param("0.9.1", False, id="older than the catalogue"),
        pytest.param("nightly", False, id="no number"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="not said"),
    ],
)
def test_versions_in_the_catalogue_are_known(version, known):
    assert catalogue_for(version).known is known


@pytest.mark.parametrize(
    ("version", "signal", "names"),
    [
        pytest.param(
            "0.33.0",
            "kv_fraction",
            ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
            id="the old name stays as an alias",
        ),
        pytest.param(
            "0.19.0",
            "waiting_requests",
            ["vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"],
            id="before 0.20 the plain queue comes first",
        ),
        pytest.param(
            "0.20.0",
            "waiting_requests",
            ["vllm:num_requests_waiting_by_reason", "vllm:num_requests_waiting"],
            id="from 0.20 the queue by reason",
        ),
        pytest.param(
            "0.17.0",
            "prompt_tokens",
            ["vllm:prompt_tokens_total", "vllm:prompt_tokens_by_source_total"],
            id="before 0.18 all prompt tokens",
        ),
        pytest.param(
            "nightly",
            "inter_token_latency",
            ["vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"],
            id="unknown reads the newest first",
        ),
    ],
)
def test_names_of_the_version_come_first(version, signal, names):
    assert [series.name for series in catalogue_for(version).preferences[signal]] == names


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("0.31.0", None, id="not counted before 0.32"),
        pytest.param("0.32.0", "vllm:admission_rejections_total", id="counted by 0.32"),
        pytest.param("0.40.0", "vllm:admission_rejections_total", id="unknown expects the newest"),
    ],
)
def test_expected_names_by_version(version, expected):
    assert catalogue_for(version).expected.get("rejected_requests") == expected


def test_every_signal_is_a_field_of_the_sample():
    assert set(SIGNALS) - {ALL_WAITING} <= set(EngineSample.__dataclass_fields__)


def test_created_series_are_never_read():
    assert not [name for name in wire_names() if name.endswith("_created")]
