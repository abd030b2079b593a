"""The sample of one answer: sums over engines, the fullest KV cache, and None for missing series."""

import math
import re
from pathlib import Path

import pytest

from forebay.telemetry.engine_sample import NotAnEngine, SignalMissing, sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.text_format import MalformedMetrics

SAMPLES = Path(__file__).parents[1] / "samples"
LOAD = (SAMPLES / "vllm-metrics-load.txt").read_text()
TWO_ENGINES = (SAMPLES / "vllm-metrics-dp2-load.txt").read_text()


def sample(text: str, version: str | None = "0.32.0"):
    return sample_of(text.encode(), catalogue_for(version), taken_at=1000.0)


def without(text: str, *names: str) -> str:
    """The answer without the series of these names; a histogram's name includes its buckets."""
    dropped = re.compile(rf"({'|'.join(names)})(_bucket|_sum|_count)?[{{ ]")
    return "".join(f"{line}\n" for line in text.splitlines() if not dropped.match(line))


def an_answer(*series: str, steps: int = 0) -> str:
    return "".join(f"{line}\n" for line in (f'vllm:iteration_tokens_total_count{{engine="0"}} {steps}', *series))


def test_a_loaded_engine():
    read = sample(LOAD)

    assert (read.taken_at, read.running_requests, read.waiting_requests) == (1000.0, 4.0, 28.0)
    assert read.kv_fraction == 0.5039370078740157
    assert (read.engine_steps, read.prompt_tokens, read.generation_tokens) == (121.0, 1624.0, 448.0)
    assert (read.finished_requests, read.rejected_requests, read.preemptions) == (2.0, 0.0, 0.0)
    assert (read.finished_prompt_tokens, read.finished_output_tokens) == (24.0, 11.0)
    assert read.kv_cache_tokens == 4096
    assert read.missing == ()


def test_an_idle_engine_is_zero():
    read = sample((SAMPLES / "vllm-metrics-idle.txt").read_text())

    assert (read.running_requests, read.waiting_requests, read.kv_fraction) == (0.0, 0.0, 0.0)
    assert read.missing == ()


def test_two_engines_are_summed_and_the_fullest_cache_counts():
    read = sample(
        TWO_ENGINES.replace(
            'kv_cache_usage_perc{engine="1",model_name="tiny"} 0.28',
            'kv_cache_usage_perc{engine="1",model_name="tiny"} 0.98',
        )
    )

    assert (read.running_requests, read.waiting_requests) == (8.0, 16.0)
    assert read.kv_fraction == 0.9834645669291339
    assert (read.engine_steps, read.prompt_tokens, read.generation_tokens) == (129.0, 1600.0, 511.0)
    assert read.kv_cache_tokens == 8192
    assert read.time_to_first_token is not None
    assert read.time_to_first_token.count == 8.0
    assert read.time_to_first_token.sum == pytest.approx(3.5367543697357178 + 1.9509778022766113)


def test_histograms_are_cumulative_up_to_infinity():
    histogram = sample(LOAD).time_to_first_token

    assert histogram is not None
    assert histogram.bounds[:2] == (0.001, 0.005)
    assert histogram.bounds[-1] == math.inf
    assert [*histogram.counts[4:10]] == [1.0, 1.0, 1.0, 2.0, 3.0, 6.0]
    assert histogram.sum == 1.6565001010894775


def test_requests_deferred_for_an_adapter_do_not_wait_for_capacity():
    read = sample(
        an_answer(
            'vllm:num_requests_waiting{engine="0"} 7',
            'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2',
            'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 5',
        )
    )

    assert (read.waiting_requests, read.deferred_requests, read.in_flight) == (2.0, 5.0, 7.0)


def test_a_reason_that_is_new_still_counts_as_accepted_work():
    read = sample(
        an_answer(
            'vllm:num_requests_waiting{engine="0"} 9',
            'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2',
            'vllm:num_requests_waiting_by_reason{engine="0",reason="something_new"} 7',
        ),
        version="0.40.0",
    )

    assert (read.waiting_requests, read.deferred_requests) == (2.0, 7.0)


def test_an_engine_without_reasons_is_read_by_its_whole_queue():
    read = sample(without(LOAD, "vllm:num_requests_waiting_by_reason"), version="0.19.0")

    assert read.waiting_requests == 28.0
    assert "vllm:num_requests_waiting_by_reason" not in read.missing


def test_an_alias_is_read_and_the_expected_name_reported_missing():
    read = sample(without(LOAD, "vllm:num_requests_waiting_by_reason"), version="0.32.0")

    assert read.waiting_requests == 28.0
    assert read.missing == ("vllm:num_requests_waiting_by_reason",)


@pytest.mark.parametrize("version", ["0.10.2", "0.32.0", "nightly", None])
def test_the_old_name_of_the_cache_gauge_is_found_under_any_version(version):
    assert (
        sample(LOAD.replace("kv_cache_usage_perc", "gpu_cache_usage_perc"), version).kv_fraction == 0.5039370078740157
    )


def test_the_old_name_of_token_latency_is_found():
    renamed = LOAD.replace("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")

    assert sample(renamed, "0.32.0").inter_token_latency == sample(LOAD).inter_token_latency


GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")


def test_gauges_that_were_never_set_are_zero():
    """An idle server with several API server processes exports counters, but no gauges."""
    read = sample(without(an_answer('vllm:prompt_tokens_total{engine="0"} 0'), *GAUGES))

    assert (read.running_requests, read.waiting_requests, read.kv_fraction) == (0.0, 0.0, 0.0)


def test_an_engine_that_never_worked_counts_as_zero():
    read = sample(
        an_answer(
            'vllm:iteration_tokens_total_count{engine="1"} 40',
            'vllm:num_requests_running{engine="1"} 3',
            'vllm:num_requests_waiting{engine="1"} 1',
            'vllm:kv_cache_usage_perc{engine="1"} 0.5',
        )
    )

    assert (read.running_requests, read.waiting_requests, read.kv_fraction) == (3.0, 1.0, 0.5)


@pytest.mark.parametrize("name", GAUGES)
def test_a_missing_gauge_of_a_working_engine_is_not_zero(name):
    with pytest.raises(SignalMissing, match=r"is missing, although vllm:iteration_tokens_total_count is 121"):
        sample(re.sub(rf"(?m)^{name}(_by_reason)?", "vllm:renamed", LOAD))


@pytest.mark.parametrize("name", GAUGES)
@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_an_invalid_gauge_is_not_zero(name, value):
    broken = re.sub(rf"(?m)^({name}(?:_by_reason)?{{[^}}]*}}) \S+$", rf"\1 {value}", LOAD)

    with pytest.raises(SignalMissing, match="is not a valid value"):
        sample(broken)


def test_an_invalid_gauge_of_one_engine_fails_the_sum():
    broken = TWO_ENGINES.replace(
        'num_requests_running{engine="1",model_name="tiny"} 4.0',
        'num_requests_running{engine="1",model_name="tiny"} NaN',
    )

    with pytest.raises(SignalMissing, match="vllm:num_requests_running is nan"):
        sample(broken)


@pytest.mark.parametrize(
    ("value", "expected"),
    [pytest.param("1.0", 1.0, id="full"), pytest.param("1.004", 1.0, id="one block over is full")],
)
def test_a_full_cache_reads_as_1(value, expected):
    assert sample(an_answer(f'vllm:kv_cache_usage_perc{{engine="0"}} {value}')).kv_fraction == expected


def test_a_percentage_is_not_accepted_as_a_fraction():
    with pytest.raises(SignalMissing, match=r"is 84 .* from 0 to 1"):
        sample(an_answer('vllm:kv_cache_usage_perc{engine="0"} 84'))


COUNTERS = [
    ("engine_steps", "vllm:iteration_tokens_total_count"),
    ("generation_tokens", "vllm:generation_tokens_total"),
    ("finished_requests", "vllm:request_success_total"),
    ("rejected_requests", "vllm:admission_rejections_total"),
    ("preemptions", "vllm:num_preemptions_total"),
]


@pytest.mark.parametrize(("field", "name"), COUNTERS)
def test_an_absent_counter_is_missing_and_named(field, name):
    read = sample(LOAD.replace(f"\n{name}{{", "\nvllm:renamed{"))

    assert getattr(read, field) is None
    assert read.missing == (name,)


def test_counters_whose_sum_is_beyond_any_number_are_missing_and_named():
    read = sample(re.sub(r"(?m)^(vllm:request_success_total{[^}]*}) \S+$", r"\1 1.7e308", LOAD))

    assert read.finished_requests is None
    assert read.missing == ("vllm:request_success_total",)


@pytest.mark.parametrize(("field", "name"), COUNTERS)
def test_a_counter_without_a_number_is_missing_and_named(field, name):
    read = sample(re.sub(rf"(?m)^({name}{{[^}}]*}}) \S+$", r"\1 NaN", LOAD))

    assert getattr(read, field) is None
    assert read.missing == (name,)


def test_rejections_are_not_expected_from_older_versions():
    read = sample(without(LOAD, "vllm:admission_rejections_total"), version="0.31.0")

    assert read.rejected_requests is None
    assert read.missing == ()


def test_rejections_carry_no_engine_and_are_summed_over_reasons():
    read = sample(
        an_answer(
            'vllm:admission_rejections_total{model_name="m",reason="max_num_queued_reqs"} 3',
            'vllm:admission_rejections_total{model_name="m",reason="max_num_queued_tokens"} 4',
        )
    )

    assert read.rejected_requests == 7.0


def test_cached_prompt_tokens_are_not_work():
    source = 'vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_cache_hit"}'

    assert sample(LOAD.replace(f"{source} 0.0", f"{source} 900.0")).prompt_tokens == 1624.0


HISTOGRAMS = [
    ("time_to_first_token", "vllm:time_to_first_token_seconds"),
    ("inter_token_latency", "vllm:inter_token_latency_seconds"),
    ("queue_time", "vllm:request_queue_time_seconds"),
]


@pytest.mark.parametrize(("field", "name"), HISTOGRAMS)
@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        pytest.param(r"(?m)^{name}_bucket.*\n", "", id="no buckets"),
        pytest.param(r'(?m)^{name}_bucket{{[^}}]*le="\+Inf".*\n', "", id="no last bucket"),
        pytest.param(r"(?m)^{name}_sum.*\n", "", id="no sum"),
        pytest.param(r'(?m)^({name}_bucket{{[^}}]*le="\+Inf"[^}}]*}}) \S+$', r"\1 NaN", id="no number"),
        pytest.param(r'(?m)^({name}_bucket{{[^}}]*le="20.0"[^}}]*}}) \S+$', r"\1 9999", id="counts that fall"),
        pytest.param(r'(?m)^({name}_bucket{{[^}}]*le=)"20.0"', r'\1"much"', id="a bound that is no number"),
    ],
)
def test_a_histogram_that_cannot_be_trusted_is_missing(field, name, pattern, replacement):
    broken, changes = re.subn(pattern.format(name=name), replacement, LOAD)
    assert changes > 0

    read = sample(broken)

    assert getattr(read, field) is None
    assert read.missing == (name,)


def test_engines_with_different_buckets_are_not_added_up():
    read = sample(
        TWO_ENGINES.replace(
            'time_to_first_token_seconds_bucket{engine="1",le="0.5"',
            'time_to_first_token_seconds_bucket{engine="1",le="0.6"',
        )
    )

    assert read.time_to_first_token is None
    assert read.missing == ("vllm:time_to_first_token_seconds",)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param(LOAD, 4096, id="128 blocks of 32"),
        pytest.param(TWO_ENGINES, 8192, id="two engines each repeat their sum of 256 blocks"),
    ],
)
def test_cache_size_from_blocks_before_it_was_stated(text, tokens):
    read = sample(re.sub(r'kv_cache_size_tokens="\d+",', "", text), version="0.23.0")

    assert read.kv_cache_tokens == tokens
    assert "vllm:cache_config_info" not in read.missing


def test_cache_size_that_should_be_stated_and_is_not():
    read = sample(re.sub(r'kv_cache_size_tokens="\d+"', 'kv_cache_size_tokens="None"', LOAD), version="0.32.0")

    assert read.kv_cache_tokens == 4096
    assert read.missing == ("vllm:cache_config_info",)


def test_cache_size_unknown():
    read = sample(without(LOAD, "vllm:cache_config_info"))

    assert read.kv_cache_tokens is None
    assert read.missing == ("vllm:cache_config_info",)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("<html><body>502 Bad Gateway</body></html>\n", id="an error page"),
        pytest.param("# TYPE vllm:num_requests_running gauge\n", id="only comments about vLLM"),
        pytest.param("envoy_cluster_upstream_rq_active 3\n", id="another server's metrics"),
    ],
)
def test_another_server_is_not_an_idle_engine(text):
    with pytest.raises(NotAnEngine):
        sample(text)


def test_a_truncated_response_is_refused():
    with pytest.raises(MalformedMetrics):
        sample(LOAD[:-1])
