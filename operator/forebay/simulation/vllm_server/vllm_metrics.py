"""The `/metrics` page of one vLLM server, with the names, types, labels and bucket bounds of vLLM 0.32.

A server with one engine is one process: counters and histograms have `_created` series, and `process_*` exists. With
more data-parallel ranks vLLM runs several API processes in Prometheus' multiprocess mode. Then those series are
missing, and a gauge does not exist before its rank has served a first request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.simulation.engine.engine_stats import EngineStats
from forebay.simulation.engine.histogram import CHOICE_BOUNDS, BucketHistogram
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.vllm_server.exposition import Labels, PageTemplate, histogram_values, sample_value
from forebay.simulation.vllm_server.vllm_arguments import ServeArguments

CONTENT_TYPE: Final = "text/plain; version=1.0.0; charset=utf-8"

Read = Callable[[ReplicaEngine], Sequence[float]]


def _zero(_: ReplicaEngine) -> Sequence[float]:
    return (0,)


@dataclass(frozen=True, slots=True)
class _Series:
    """A counter or gauge."""

    name: str
    about: str
    read: Read
    """Gives one value for each entry of `labels`."""
    labels: tuple[Labels, ...] = ({},)
    """Labels of each series, in addition to the model and the engine."""


def _labelled(label: str, *values: str) -> tuple[Labels, ...]:
    return tuple({label: value} for value in values)


def _by_source(engine: ReplicaEngine) -> Sequence[float]:
    # Cached tokens are counted at admission, prompts at the end of their prefill, so the difference could be negative.
    cached = min(engine.stats.cached_tokens, engine.stats.prompt_tokens)
    return (engine.stats.prompt_tokens - cached, cached, 0)


_COUNTERS_BEFORE_GAUGES: Final = (
    _Series("vllm:estimated_flops_per_gpu", "Not estimated here.", _zero),
    _Series("vllm:estimated_read_bytes_per_gpu", "Not estimated here.", _zero),
    _Series("vllm:estimated_write_bytes_per_gpu", "Not estimated here.", _zero),
)
_GAUGES: Final = (
    _Series("vllm:num_requests_running", "Requests in the batch.", lambda engine: (engine.running,)),
    _Series("vllm:num_requests_waiting", "Requests that wait.", lambda engine: (engine.waiting,)),
    _Series(
        "vllm:num_requests_waiting_by_reason",
        "Requests that wait, by reason.",
        lambda engine: (engine.waiting, 0),
        _labelled("reason", "capacity", "deferred"),
    ),
    _Series(
        "vllm:engine_sleep_state",
        "Which sleep state the engine is in.",
        lambda _: (1, 0, 0),
        _labelled("sleep_state", "awake", "weights_offloaded", "discard_all"),
    ),
    _Series("vllm:kv_cache_usage_perc", "KV cache in use, 0 to 1.", lambda engine: (engine.kv_fraction,)),
)
_ALWAYS_SET: Final = "vllm:engine_sleep_state"
_COUNTERS: Final = (
    _Series("vllm:prefix_cache_queries", "Prompt tokens looked up.", lambda engine: (engine.stats.queried_tokens,)),
    _Series("vllm:prefix_cache_hits", "Prompt tokens found.", lambda engine: (engine.stats.cached_tokens,)),
    _Series("vllm:external_prefix_cache_queries", "No external cache here.", _zero),
    _Series("vllm:external_prefix_cache_hits", "No external cache here.", _zero),
    _Series("vllm:mm_cache_queries", "No multi-modal cache here.", _zero),
    _Series("vllm:mm_cache_hits", "No multi-modal cache here.", _zero),
    _Series("vllm:num_preemptions", "Preemptions.", lambda engine: (engine.stats.preemptions,)),
    _Series("vllm:prompt_tokens", "Prompt tokens processed.", lambda engine: (engine.stats.prompt_tokens,)),
    _Series(
        "vllm:prompt_tokens_by_source",
        "Prompt tokens by where they came from.",
        _by_source,
        _labelled("source", "local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    _Series("vllm:prompt_tokens_cached", "Cached prompt tokens.", lambda engine: (engine.stats.cached_tokens,)),
    _Series(
        "vllm:prompt_tokens_cached_by_source",
        "Cached prompt tokens by tier.",
        lambda engine: (engine.stats.cached_tokens, 0, 0, 0, 0),
        _labelled("source", "device", "host", "p2p", "disk", "external_unspecified"),
    ),
    _Series("vllm:generation_tokens", "Tokens generated.", lambda engine: (engine.stats.generation_tokens,)),
    _Series(
        "vllm:request_success",
        "Finished requests by reason.",
        lambda engine: (*engine.stats.finished.values(), 0, 0),
        _labelled("finished_reason", "stop", "length", "abort", "error", "repetition"),
    ),
)
_HISTOGRAMS: Final[tuple[tuple[str, str, Callable[[EngineStats], BucketHistogram]], ...]] = (
    ("vllm:request_prompt_tokens", "Prompt tokens of a request.", lambda stats: stats.request_prompt_tokens),
    ("vllm:request_generation_tokens", "Answer tokens of a request.", lambda stats: stats.request_generation_tokens),
    ("vllm:iteration_tokens_total", "Tokens of an engine step.", lambda stats: stats.step_tokens),
    ("vllm:request_max_num_generation_tokens", "Longest answer.", lambda stats: stats.request_generation_tokens),
    ("vllm:request_params_n", "Answers asked for.", lambda stats: _single_choices(stats)),
    ("vllm:request_params_max_tokens", "Longest answer asked for.", lambda stats: stats.request_max_tokens),
    ("vllm:time_to_first_token_seconds", "Arrival to first token.", lambda stats: stats.first_token_seconds),
    ("vllm:inter_token_latency_seconds", "Token to token.", lambda stats: stats.token_seconds),
    ("vllm:request_time_per_output_token_seconds", "Mean of a request.", lambda stats: stats.request_token_seconds),
    ("vllm:e2e_request_latency_seconds", "Arrival to last token.", lambda stats: stats.end_to_end_seconds),
    ("vllm:request_queue_time_seconds", "Queue to batch.", lambda stats: stats.queue_seconds),
    ("vllm:request_inference_time_seconds", "Batch to last token.", lambda stats: stats.inference_seconds),
    ("vllm:request_prefill_time_seconds", "Batch to first token.", lambda stats: stats.prefill_seconds),
    ("vllm:request_decode_time_seconds", "First to last token.", lambda stats: stats.decode_seconds),
    ("vllm:request_num_preemptions", "Preemptions of a request.", lambda stats: stats.request_preemptions),
    ("vllm:request_prefill_kv_computed_tokens", "Tokens prefilled.", lambda stats: stats.request_computed_tokens),
)
_REJECTIONS: Final = ("max_num_queued_reqs", "max_num_queued_tokens")


def _single_choices(stats: EngineStats) -> BucketHistogram:
    """The number of answers that requests ask for, which is always one here."""
    histogram = BucketHistogram(CHOICE_BOUNDS)
    histogram.observe(1.0, sum(stats.finished.values()))
    return histogram


class MetricsPage:
    """Renders the metrics of a server's engines. The server itself counts `rejections`."""

    def __init__(
        self, model: str, engines: Sequence[ReplicaEngine], cache_config: Sequence[Labels], created: float
    ) -> None:
        self._model = model
        self._engines = engines
        self._cache_config = cache_config
        self._created = created
        self.single_process = len(engines) == 1
        self.rejections = dict.fromkeys(_REJECTIONS, 0)
        self._served = [False] * len(engines)
        self._template, self._readers = self._lay_out()

    def text(self) -> str:
        """The page, as of the time to which the engines were last advanced."""
        served = [engine.stats.queried_tokens > 0 or engine.outstanding > 0 for engine in self._engines]
        if served != self._served and not self.single_process:
            self._served = served
            self._template, self._readers = self._lay_out()
        values: list[str] = []
        for read in self._readers:
            values.extend(read())
        return self._template % tuple(values)

    def _lay_out(self) -> tuple[str, list[Callable[[], list[str]]]]:
        page, readers = PageTemplate(), list[Callable[[], list[str]]]()
        if self.single_process:
            for series in _COUNTERS_BEFORE_GAUGES:
                self._counter(page, readers, series)
            self._gauges(page, readers)
            for series in _COUNTERS:
                self._counter(page, readers, series)
        else:
            for series in (*_COUNTERS_BEFORE_GAUGES, *_COUNTERS):
                self._counter(page, readers, series)
        self._rejected(page, readers)
        for name, about, read in _HISTOGRAMS:
            self._histogram(page, readers, name, about, read)
        if not self.single_process:
            self._gauges(page, readers)
        page.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        for labels in self._cache_config:
            page.sample("vllm:cache_config_info", labels, "1.0")
        return page.template(), readers

    def _labels(self, rank: int, more: Labels) -> Labels:
        return {"engine": str(rank), "model_name": self._model, **more}

    def _counter(self, page: PageTemplate, readers: list[Callable[[], list[str]]], series: _Series) -> None:
        page.family(f"{series.name}_total", "counter", series.about)
        all_labels = []
        for rank, engine in enumerate(self._engines):
            for labels in series.labels:
                all_labels.append(self._labels(rank, labels))
                page.sample(f"{series.name}_total", all_labels[-1])
            readers.append(_values(series.read, engine))
        if self.single_process:
            page.created(series.name, all_labels, self._created)

    def _gauges(self, page: PageTemplate, readers: list[Callable[[], list[str]]]) -> None:
        for series in _GAUGES:
            ranks = [
                rank
                for rank in range(len(self._engines))
                if self.single_process or self._served[rank] or series.name == _ALWAYS_SET
            ]
            if ranks:
                page.family(series.name, "gauge", series.about)
            for rank in ranks:
                for labels in series.labels:
                    page.sample(series.name, self._labels(rank, labels))
                readers.append(_values(series.read, self._engines[rank]))

    def _rejected(self, page: PageTemplate, readers: list[Callable[[], list[str]]]) -> None:
        """Add the rejections. They have no engine label, since they are counted before an engine is chosen."""
        name = "vllm:admission_rejections"
        series = [{"model_name": self._model, "reason": reason} for reason in _REJECTIONS]
        page.family(f"{name}_total", "counter", "Requests refused because the queue was full.")
        for labels in series:
            page.sample(f"{name}_total", labels)
        readers.append(lambda: [sample_value(count) for count in self.rejections.values()])
        if self.single_process:
            page.created(name, series, self._created)

    def _histogram(
        self,
        page: PageTemplate,
        readers: list[Callable[[], list[str]]],
        name: str,
        about: str,
        read: Callable[[EngineStats], BucketHistogram],
    ) -> None:
        page.family(name, "histogram", about)
        for rank, engine in enumerate(self._engines):
            page.histogram(name, self._labels(rank, {}), read(engine.stats).bounds)
            readers.append(_histogram_values(read, engine.stats))
        if self.single_process:
            page.created(name, [self._labels(rank, {}) for rank in range(len(self._engines))], self._created)


def _values(read: Read, engine: ReplicaEngine) -> Callable[[], list[str]]:
    return lambda: [sample_value(value) for value in read(engine)]


def _histogram_values(read: Callable[[EngineStats], BucketHistogram], stats: EngineStats) -> Callable[[], list[str]]:
    return lambda: histogram_values(read(stats))


def cache_config(arguments: ServeArguments, engine: ReplicaEngine, rank: int) -> Labels:
    """The labels of `cache_config_info`: the fields of vLLM 0.32's CacheConfig, without a model name."""
    blocks = engine.blocks.usable + 1
    tokens = blocks * engine.blocks.size
    size = str(engine.blocks.size)
    return {
        "_block_size_resolved": "True",
        "block_size": size,
        "cache_dtype": arguments.kv_cache_dtype,
        "cache_hit_alignment_tokens": "None",
        "effective_attention_block_size": size,
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": str(arguments.enable_prefix_caching),
        "engine": str(rank),
        "gpu_memory_utilization": str(arguments.gpu_memory_utilization),
        "hash_block_size": "None",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None",
        "kv_cache_max_concurrency": str(tokens / engine.limits.max_model_len),
        "kv_cache_memory_bytes": str(arguments.kv_cache_memory_bytes),
        "kv_cache_size_tokens": str(tokens),
        "kv_offloading_backend": "native",
        "kv_offloading_size": "None",
        "kv_sharing_fast_prefill": "False",
        "mamba_block_size": "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "auto",
        "num_cpu_blocks": "None",
        # Unlike kv_cache_size_tokens, vLLM states the sum of all ranks here.
        "num_gpu_blocks": str(blocks * arguments.data_parallel_size),
        "num_gpu_blocks_override": str(arguments.kv_blocks),
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": "None",
        "replayssm_buffer_len": "16",
        "skip_page_size_padded": "None",
        "sliding_window": "None",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": str(arguments.block_size_given),
    }
