"""Small archives in ServeGen's format: traces have the rates, lengths, gaps and tenants that were put in."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from forebay.simulation.traffic.servegen import digest_of, read_clients, servegen
from forebay.simulation.traffic.trace_file import TraceError
from forebay.simulation.traffic.traces import steady, synthetic, with_lengths_of


def an_archive(path: Path, members: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def a_window(begin: int, rate: float, family: str = "Gamma", shape: float = 1.0) -> str:
    scale = 1 / (rate * shape) if rate else 0
    return f"{begin},{rate},1.0,{family if rate else ''},{shape if rate else 0},{scale}"


@pytest.fixture
def clients(tmp_path):
    traces = an_archive(
        tmp_path / "trace.tar.gz",
        {
            "chunk-0-trace.csv": "\n".join([a_window(0, 4.0), a_window(600, 0.0), a_window(1200, 8.0)]),
            "chunk-1-trace.csv": "\n".join([a_window(0, 1.0, "Weibull"), a_window(600, 0.0), a_window(1200, 1.0)]),
        },
    )
    lengths = {"0": {"input_tokens": "{100: 0.25, 200: 0.75}", "output_tokens": "{10: 1.0}"}}
    datasets = an_archive(tmp_path / "dataset.tar.gz", {"chunk-0-dataset.json": json.dumps(lengths)})
    return read_clients(traces, datasets)


def test_the_largest_client_comes_first(clients):
    assert [client.name for client in clients] == ["chunk-0", "chunk-1"]


def test_rates_and_lengths_come_out_as_they_went_in(clients):
    trace = servegen(clients, "small", 0, 600, share=1.0, seed=3)
    assert len(trace) == pytest.approx(5 * 600, rel=0.06)
    assert (trace.tenants == 0).sum() == pytest.approx(4 * 600, rel=0.07)
    assert trace.tenant_names == ("chunk-0", "chunk-1", "rest")
    assert np.all(np.diff(trace.times) >= 0)
    assert trace.prompt_tokens.mean() == pytest.approx(175, rel=0.03)
    assert set(trace.output_tokens.tolist()) == {10}


def test_a_gap_in_collection_is_filled_and_said(clients):
    trace = servegen(clients, "small", 0, 1800, share=1.0, seed=3)
    filled = ((trace.times >= 600) & (trace.times < 1200)).sum()
    assert filled == pytest.approx(5 * 600, rel=0.06)
    assert "1 windows without any request are filled" in trace.method[1]
    assert "1 clients have no lengths" in trace.method[1]


def test_thinning_keeps_a_share_and_the_span_begins_at_zero(clients):
    trace = servegen(clients, "small", 1200, 1500, share=0.5, seed=3)
    assert len(trace) == pytest.approx(9 * 300 * 0.5, rel=0.1)
    assert 0 <= trace.times[0] < 10
    assert trace.times[-1] < 300


def test_arrivals_can_take_the_lengths_of_another_recording(clients):
    trace = servegen(clients, "small", 0, 600, share=1.0, seed=3)
    other = synthetic("other", steady(1.0), 100, 1, lengths=(700, 33))
    changed = with_lengths_of(trace, other, seed=1)
    assert np.array_equal(changed.times, trace.times)
    assert set(zip(changed.prompt_tokens.tolist(), changed.output_tokens.tolist(), strict=True)) == {(700, 33)}
    assert changed.method[-1] == "lengths of other"


def test_the_same_seed_draws_the_same(clients):
    first, again = (servegen(clients, "small", 0, 600, share=0.3, seed=5) for _ in range(2))
    assert np.array_equal(first.times, again.times)
    assert not np.array_equal(first.times[:50], servegen(clients, "small", 0, 600, share=0.3, seed=6).times[:50])


def test_other_archives_and_impossible_shares_are_refused(tmp_path, clients):
    other = an_archive(tmp_path / "other.tar.gz", {"readme.txt": "hello"})
    with pytest.raises(TraceError, match=r"no member ends in -trace\.csv"):
        read_clients(other, other)
    with pytest.raises(ValueError, match="share: 2 is not between 0 and 1"):
        servegen(clients, "small", 0, 600, share=2, seed=1)
    assert len(digest_of(other, other)) == 64
