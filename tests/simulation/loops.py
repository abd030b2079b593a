"""Builders of closed loops: one chat service on two nodes of eight H100, exact cold starts, one initial replica."""

from dataclasses import replace
from typing import Any

from forebay.capacity.model.replica_model import Promise
from forebay.scaling.load.signals import EngineSample
from forebay.simulation.cluster.closed_loop import ClosedLoop, LoopSettings
from forebay.simulation.cluster.cold_start import ColdStarts, NodePool
from forebay.simulation.cluster.policy import Control
from forebay.simulation.cluster.scrape_model import PageFilter
from forebay.simulation.cluster.served_model import ServedModel, limits_of, view_of_manifest
from forebay.simulation.engine.replica_engine import ReplicaEngine
from forebay.simulation.engine.simulated_profile import BUILT_IN
from forebay.simulation.traffic.flow import Flow
from forebay.simulation.traffic.traces import Rate, Trace, steady, synthetic
from forebay.simulation.vllm_server.vllm_arguments import parse_serve
from forebay.simulation.vllm_server.vllm_metrics import MetricsPage, cache_config
from forebay.telemetry.engine_sample import sample_of
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.world.world import ServiceKey, ServiceView

CHAT = ServiceKey("default", "chat")
EXACT = ColdStarts(spread=0.0)
PROMISE = Promise(0.5, 0.04)
PRODUCT = "NVIDIA-H100-80GB-HBM3"


def a_view(
    name: str = "chat",
    *,
    min_replicas: int = 1,
    max_replicas: int = 8,
    scaling: dict[str, Any] | None = None,
    **spec: Any,
) -> ServiceView:
    """An 8B model on one H100 a replica, resolved by the production code; `spec` in the manifest's own words."""
    model = {"source": "hf://meta-llama/Llama-3.1-8B-Instruct"} | spec.pop("model", {})
    bounds = {"minReplicas": min_replicas, "maxReplicas": max_replicas} | (scaling or {})
    fields = {"model": model, "gpu": {"product": PRODUCT}, "scaling": bounds} | spec
    view = view_of_manifest({"metadata": {"name": name}, "spec": fields})
    assert view.wanted is not None, view.problems
    return view


def a_model(view: ServiceView | None = None, **true: Any) -> ServedModel:
    """The service with its engine; `true` replaces coefficients of the true engine."""
    view = view or a_view()
    profile = replace(BUILT_IN["8b-h100"], **true)
    return ServedModel(view, profile, limits_of(view, profile))


def a_loop(
    traffic: float | Rate | Trace | Flow,
    seconds: float,
    *,
    control: Control,
    seed: int = 0,
    initial_replicas: int | None = None,
    model: ServedModel | None = None,
    page: PageFilter | None = None,
    pools: tuple[NodePool, ...] = (NodePool(nodes=2),),
    lengths: tuple[float, float] = (500, 200),
    **fields: Any,
) -> ClosedLoop:
    """Traffic as a rate or a trace. `fields` are those of `LoopSettings` or, if not there, of `a_view`."""
    setting: dict[str, Any] = {
        name: fields.pop(name) for name in ("starts", "gateway", "tick_seconds", "epoch") if name in fields
    }
    model = model or a_model(a_view(**fields))
    count = 0 if "starts" in setting or "gateway" in setting else 1
    if isinstance(traffic, float | int):
        traffic = steady(float(traffic))
    trace = traffic if isinstance(traffic, Trace | Flow) else synthetic("test", traffic, seconds, seed, lengths=lengths)
    labels = (("nvidia.com/gpu.product", PRODUCT),)
    return ClosedLoop(
        LoopSettings(
            pools=tuple(replace(pool, labels=labels) for pool in pools),
            seed=seed,
            initial_replicas={CHAT: count if initial_replicas is None else initial_replicas},
            **({"starts": EXACT} | setting),
        ),
        [model],
        {CHAT: trace},
        control,
        page,
    )


def a_page(engine: ReplicaEngine, taken_at: float) -> EngineSample:
    """What telemetry reads from the page of an engine."""
    page = MetricsPage("model", (engine,), [cache_config(parse_serve(["org/model"]), engine, 0)], 0.0)
    return sample_of(page.text().encode(), catalogue_for("0.32.0"), taken_at)
