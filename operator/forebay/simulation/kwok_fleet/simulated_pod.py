"""The vLLM server of one pod without a process: its engines, and the page it would serve at `/metrics`.

It is configured by the command line and the environment of the pod's container, read by engine-sim's parser. So a pod
behaves the same whether its image really runs or KWOK only reports it as running.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from forebay.simulation.engine.engine_stats import EngineRequest
from forebay.simulation.engine.replica_engine import EngineLimits, ReplicaEngine
from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.vllm_server.engine_sim import DEFAULT_PROFILE, read_settings
from forebay.simulation.vllm_server.http_counts import HttpCounts
from forebay.simulation.vllm_server.process_metrics import Usage, process_text
from forebay.simulation.vllm_server.vllm_arguments import ServeArguments, parse_serve
from forebay.simulation.vllm_server.vllm_metrics import MetricsPage, cache_config


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """The command line and environment of a pod's engine container."""

    arguments: tuple[str, ...]
    """Command and arguments; those of the server begin after `serve`."""
    environment: tuple[tuple[str, str], ...] = ()
    default_profile: str = DEFAULT_PROFILE
    """The profile of pods that do not name one."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The parsed arguments, profile and limits of a command line that vLLM accepts."""

    arguments: ServeArguments
    profile: EngineProfile
    limits: EngineLimits


@lru_cache(maxsize=4096)
def startup_of(command: EngineCommand) -> Startup | str:
    """The startup of a server, or a message why it would not start. Pods of one revision share the cached result."""
    if "serve" not in command.arguments:
        return "the container does not run `vllm serve`"
    environment = {"ENGINE_SIM_PROFILE": command.default_profile} | dict(command.environment)
    try:
        arguments = parse_serve(command.arguments[command.arguments.index("serve") + 1 :])
        profile = read_settings(environment).profile
        return Startup(arguments, profile, arguments.limits(profile))
    except SystemExit:
        return "vLLM does not understand its command line"
    except ValueError as fault:
        return str(fault)


class SimulatedPod:
    """One pod, from the first time it is Ready to its end."""

    def __init__(self, uid: str, service: tuple[str, str], command: EngineCommand, created: float) -> None:
        self.uid = uid
        self.service = service
        self.ready = True
        self._created = created
        startup = startup_of(command)
        self.fault = startup if isinstance(startup, str) else None
        """Why the pod has no engine; a real pod would crash at start."""
        self.engines: tuple[ReplicaEngine, ...] = ()
        self._startup = None if isinstance(startup, str) else startup
        if self._startup is not None and not self._startup.arguments.headless:
            ranks = range(self._startup.arguments.data_parallel_size)
            self.engines = tuple(ReplicaEngine(self._startup.profile, self._startup.limits) for _ in ranks)
        self._page: MetricsPage | None = None
        self._http = ""

    @property
    def outstanding(self) -> int:
        """Unfinished requests over all ranks."""
        return sum(engine.outstanding for engine in self.engines)

    def take(self, request: EngineRequest) -> bool:
        """Give a request to the least busy rank; False if the server would refuse it."""
        assert self._startup is not None, "only pods with engines are in rotation"
        arguments, limits = self._startup.arguments, self._startup.limits
        if request.prompt_tokens + request.output_tokens > limits.max_model_len:
            return False
        queued = sum(engine.queued for engine in self.engines)
        if arguments.max_queued_requests is not None and queued >= arguments.max_queued_requests:
            self._metrics().rejections["max_num_queued_reqs"] += 1
            return False
        min(self.engines, key=lambda engine: engine.outstanding).submit(request)
        return True

    def advance(self, now: float) -> int:
        """Advance the engines to `now`; return how many requests finished."""
        return sum(len(engine.advance(now)) for engine in self.engines)

    def text(self, usage: Usage) -> str:
        """The page at `/metrics`. The pod gets no HTTP requests, so the HTTP metrics stay empty."""
        page = self._metrics()
        if not self._http:
            self._http = HttpCounts(self._created).text(single_process=page.single_process)
        process = process_text(self._created, usage) if page.single_process else ""
        return process + page.text() + self._http

    def _metrics(self) -> MetricsPage:
        if self._page is None:
            assert self._startup is not None, "a pod without engines has no metrics"
            arguments = self._startup.arguments
            config = [cache_config(arguments, engine, rank) for rank, engine in enumerate(self.engines)]
            self._page = MetricsPage(arguments.served_model_names[0], self.engines, config, self._created)
        return self._page
