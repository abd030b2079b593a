"""Traffic: reading of recordings, synthetic shapes, and the effect of a rate factor."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from forebay.simulation.traffic.trace_file import TraceError, read_trace
from forebay.simulation.traffic.traces import (
    between,
    diurnal,
    noisy,
    parse_shape,
    ramp,
    rate_factor,
    read_file,
    steady,
    steps,
    synthetic,
    trace_of_recording,
    with_prefix_cache,
)

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
2024-05-10 02:00:02.5+02:00,76,15
"""
BURST_GPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,Conversation log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1500, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 2500, "input_length": 1200, "output_length": 490, "hash_ids": [0, 1, 9]}
{"timestamp": 3000, "input_length": 1024, "output_length": 10, "hash_ids": [0, 1]}
"""
GENERIC = """time,prompt,output,tenant
10.5,100,20,search
10,300,40,chat
"""


@pytest.mark.parametrize(
    ("text", "times", "lengths"),
    [
        pytest.param(AZURE_2023, [0, 4.314579], [(374, 44), (396, 109)], id="Azure 2023"),
        pytest.param(AZURE_2024, [0, 0.99007, 2.49007], [(2162, 5), (2399, 6), (76, 15)], id="Azure 2024, time zones"),
        pytest.param(BURST_GPT, [0, 40], [(472, 18), (1087, 230)], id="BurstGPT, failed requests left out"),
        pytest.param(MOONCAKE, [0, 2.5, 3.0], [(1500, 500), (1200, 490), (1024, 10)], id="Mooncake, milliseconds"),
        pytest.param(GENERIC, [0, 0.5], [(300, 40), (100, 20)], id="generic, put in order"),
    ],
)
def test_layouts_of_trace_files(text, times, lengths):
    trace = trace_of_recording(read_trace(text), "t")
    assert trace.times.tolist() == pytest.approx(times, abs=1e-6)
    assert trace.lengths == lengths


def test_dates_without_a_zone_are_utc_whatever_the_machine_thinks(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    mixed = AZURE_2024 + "2024-05-10 00:00:03,1,1\n"
    assert trace_of_recording(read_trace(mixed), "t").times[-1] == pytest.approx(2.99007)


def test_tenants_are_kept():
    trace = trace_of_recording(read_trace(GENERIC), "t")
    assert [trace.tenant_names[index] for index in trace.tenants] == ["chat", "search"]


def test_classes_are_kept_and_nothing_is_interactive():
    text = "time,prompt,output,class\n0,100,20,batch\n1,100,20,\n2,100,20,Interactive\n"
    trace = trace_of_recording(read_trace(text), "t")
    assert trace.batch.tolist() == [True, False, False]
    assert trace_of_recording(read_trace(GENERIC), "t").batch.tolist() == [False, False]
    assert rate_factor(trace, 2.0, 1).batch.sum() == 2
    with pytest.raises(TraceError, match="neither interactive nor batch"):
        read_trace(text.replace("batch", "urgent"))


def test_requests_that_were_left_out_are_counted_in_the_method():
    assert trace_of_recording(read_trace(BURST_GPT), "t").method == ("1 requests without an answer were left out",)


def test_an_invalid_date_is_refused_with_its_line():
    with pytest.raises(TraceError, match="line 2: 'yesterday,1,1'"):
        read_trace("timestamp,prompt,output\nyesterday,1,1\n")


def test_a_file_is_known_by_its_digest(tmp_path: Path):
    path = tmp_path / "trace.csv"
    path.write_text(GENERIC)
    trace = read_file(path)
    assert (trace.name, trace.sha256) == ("trace.csv", sha256(GENERIC.encode()).hexdigest())


def test_prefixes_that_were_seen_before_are_cached():
    recording = read_trace(MOONCAKE)
    trace = with_prefix_cache(trace_of_recording(recording, "t"), recording)
    assert trace.cached_tokens is not None
    assert trace.cached_tokens.tolist() == [0, 1024, 1023]


class TestRateFactor:
    @pytest.mark.parametrize("factor", [0.25, 1.0, 1.5, 4.0])
    def test_the_rate_follows_the_factor_at_every_time(self, factor):
        trace = synthetic("t", steps((0, 10), (500, 40)), 1000, 1)
        scaled = rate_factor(trace, factor, seed=3)
        for start, rate in ((0, 10), (500, 40)):
            got = len(between(scaled, start, start + 500)) / 500
            assert got == pytest.approx(rate * factor, rel=0.08)
        assert (np.diff(scaled.times) >= 0).all()
        assert scaled.method[-1].startswith(f"rate × {factor:g}")

    def test_one_leaves_it_as_it_is(self):
        trace = synthetic("t", steady(10), 100, 1)
        assert rate_factor(trace, 1.0, seed=3).times.tolist() == trace.times.tolist()

    def test_lengths_keep_their_distribution(self):
        trace = synthetic("t", steady(20), 1000, 1, spread=0.8)
        scaled = rate_factor(trace, 3.0, seed=3)
        for quantile in (0.1, 0.5, 0.95):
            assert np.quantile(scaled.prompt_tokens, quantile) == pytest.approx(
                np.quantile(trace.prompt_tokens, quantile), rel=0.05
            )

    def test_it_is_drawn_from_the_seed(self):
        trace = synthetic("t", steady(10), 100, 1)
        assert rate_factor(trace, 0.5, 1).times.tolist() == rate_factor(trace, 0.5, 1).times.tolist()
        assert rate_factor(trace, 0.5, 1).times.tolist() != rate_factor(trace, 0.5, 2).times.tolist()

    def test_a_factor_of_zero_is_refused(self):
        with pytest.raises(ValueError, match="not above 0"):
            rate_factor(synthetic("t", steady(10), 10, 1), 0.0, 1)


class TestShapes:
    @pytest.mark.parametrize(
        ("text", "at", "expected"),
        [
            pytest.param("steady:20", 500, 20, id="steady"),
            pytest.param("step:10,30@600", 500, 10, id="before the step"),
            pytest.param("step:10,30@600", 700, 30, id="after the step"),
            pytest.param("ramp:10,30@0-1000", 500, 20, id="half way up a ramp"),
        ],
    )
    def test_rates(self, text, at, expected):
        trace = parse_shape(text, 1200, seed=1, lengths=(500, 200))
        assert len(between(trace, at - 75, at + 75)) / 150 == pytest.approx(expected, rel=0.1)

    def test_a_day_has_its_mean_and_its_peak(self):
        trace = parse_shape("diurnal:0.5,3", 86_400, seed=1, lengths=(500, 200))
        assert len(trace) / 86_400 == pytest.approx(0.5, rel=0.03)
        assert len(between(trace, 42_000, 44_400)) / 2400 == pytest.approx(1.5, rel=0.08)

    def test_an_unknown_shape_is_refused_and_the_known_ones_are_named(self):
        with pytest.raises(ValueError, match="use steady:RATE"):
            parse_shape("sine:1", 10, 1, (1, 1))

    def test_noise_stays_within_its_bounds(self):
        times = np.linspace(0, 86_400, 5000)
        rates = noisy(steady(100.0), 5, seed=1)(times)
        assert 95 <= rates.min() < 96
        assert 104 < rates.max() <= 105

    def test_ramps_and_days_need_no_draw(self):
        assert ramp(10, 1.0, 20, 3.0)(np.array([0.0, 15.0, 99.0])).tolist() == [1.0, 2.0, 3.0]
        assert diurnal(10.0, 1.5)(np.array([43_200.0]))[0] == pytest.approx(15.0, rel=0.01)

    @pytest.mark.parametrize("burstiness", [0.5, 1.0, 3.0])
    def test_burstiness_is_the_variation_of_the_times_between(self, burstiness):
        gaps = np.diff(synthetic("t", steady(10), 3000, 1, burstiness=burstiness).times)
        assert gaps.std() / gaps.mean() == pytest.approx(burstiness, rel=0.1)
