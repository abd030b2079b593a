"""The input of a plan: what the arithmetic needs from an InferenceService, and the assumptions behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.api.inference_service import ArchitectureSpec, InferenceServiceSpec, VariantSpec
from forebay.capacity.model.architecture import Architecture
from forebay.capacity.model.checkpoint_config import CheckpointConfig
from forebay.capacity.model.gpu_memory import DEFAULT_UTILIZATION_PERCENT, Adapters
from forebay.capacity.model.model_catalogue import (
    PRODUCT_LABELS,
    CatalogueModel,
    Gpu,
    gpu_of,
    gpus,
    model_of,
    models_like,
    product_of,
)
from forebay.capacity.model.profile_choice import GivenProfile
from forebay.capacity.model.quantization import Quantization, quantization_of
from forebay.capacity.model.replica_model import Mix, Promise
from forebay.capacity.model.speculation import Speculation, draft_cost
from forebay.capacity.plan.extra_args import adapters_of, flags_of, whole_number
from forebay.capacity.plan.given_architecture import contradictions, missing_fields, same_shape, with_given_fields
from forebay.capacity.plan.monthly_demand import MonthlyDemand
from forebay.capacity.plan.plan_problem import PlanProblem, ProblemKind, UnplannableError


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Inputs of a plan that the manifest does not contain."""

    profiles: tuple[GivenProfile, ...] = ()
    configs: Mapping[str, CheckpointConfig] = field(default_factory=dict)
    """Checkpoint configurations by source without revision. The empty source applies to every model that neither this
    map nor the catalogue knows."""
    product: str | None = None
    """GPU of services that do not name one."""
    utilization_percent: int = DEFAULT_UTILIZATION_PERCENT
    engine_version: str | None = None
    lengths: tuple[tuple[float, float], ...] = ()
    """(prompt, answer) tokens of recorded requests, which replace the means of the manifest."""
    usable_share: float | None = None
    """φ (the usable share of the mean-value capacity), if it was measured for these lengths."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A service as the arithmetic of a plan sees it."""

    source: str
    """Source of the model, without a revision."""
    model: str | None
    """Name in the catalogue; None if the model's shape differs from the catalogue's."""
    nominal_parameters: int
    architecture: Architecture
    quantization: Quantization
    kv_bits: int
    gpu: Gpu
    tensor: int | None
    """Tensor-parallel size as given; None: the smallest that fits."""
    pipeline: int | None
    data: int
    nodes: int
    """Nodes over which the GPUs of one replica are spread evenly."""
    utilization_percent: int
    max_num_seqs: int
    full_length: int
    """Tokens of the longest request, which must fit."""
    adapters: Adapters | None
    speculation: Speculation | None
    draft_bytes: int
    promise: Promise
    slo_texts: Mapping[str, str]
    """The promises as the manifest writes them, by their field below `spec.slo`."""
    kv_target: float
    """Share of the KV cache above which guards add replicas, 0 to 1."""
    warm: int
    max_replicas: int | None
    """None if the manifest leaves it to its default."""
    batched_tokens: int | None
    """`--max-num-batched-tokens` if extraArgs sets it."""
    engine_version: str | None
    mix: Mix | None
    """None if no traffic is given."""
    demand: MonthlyDemand | None
    assumptions: tuple[str, ...]


def read_plan_input(spec: InferenceServiceSpec, context: PlanContext | None = None) -> PlanInput:
    """The input of a service's plan. Raises UnplannableError, with all problems, if the manifest says too little."""
    return _Reader(spec, context or PlanContext()).plan_input()


def with_variant(spec: InferenceServiceSpec, variant: VariantSpec) -> InferenceServiceSpec:
    """The spec with the variant's GPU and engine fields put in. Fields that the variant leaves out stay the service's,
    except tensorParallelSize, because another GPU needs another size."""
    names = variant.engine.model_fields_set
    given = {name: getattr(variant.engine, name) for name in names}
    changes = {name: value for name, value in given.items() if value is not None} | {
        "tensor_parallel_size": variant.engine.tensor_parallel_size
    }
    gpu = variant.gpu if variant.gpu.product or variant.gpu.node_selector else spec.gpu
    return spec.model_copy(update={"gpu": gpu, "engine": spec.engine.model_copy(update=changes)})


class _Reader:
    def __init__(self, spec: InferenceServiceSpec, context: PlanContext) -> None:
        self.spec = spec
        self.context = context
        self.source = spec.model.source.partition("@")[0]
        self.problems: list[PlanProblem] = []
        self.assumptions: list[str] = []

    def plan_input(self) -> PlanInput:
        catalogue_model = model_of(self.spec.model.source)
        config = self.context.configs.get(self.source) or (None if catalogue_model else self.context.configs.get(""))
        architecture = self._architecture(catalogue_model, config)
        gpu = self._gpu()
        if architecture is not None:
            self._check_pipeline(architecture)
        quantization = self._quantization(catalogue_model, config)
        if architecture is None or gpu is None or quantization is None or self.problems:
            raise UnplannableError(*self.problems)
        return self._plan_input(catalogue_model, config, architecture, gpu, quantization)

    def _plan_input(
        self,
        catalogue_model: CatalogueModel | None,
        config: CheckpointConfig | None,
        architecture: Architecture,
        gpu: Gpu,
        quantization: Quantization,
    ) -> PlanInput:
        engine, scaling, slo = self.spec.engine, self.spec.scaling, self.spec.slo
        extra = dict(flags_of(engine.extra_args))
        unchanged = (
            catalogue_model
            if catalogue_model and same_shape(architecture, catalogue_model.architecture) and config is None
            else None
        )
        speculation, draft_bytes = self._speculation(architecture, quantization)
        return PlanInput(
            source=self.source,
            model=unchanged.name if unchanged else None,
            nominal_parameters=unchanged.nominal_parameters if unchanged else architecture.parameters,
            architecture=architecture,
            quantization=quantization,
            kv_bits=8 if self.spec.model.kv_cache_dtype == "fp8" else 16,
            gpu=gpu,
            tensor=engine.tensor_parallel_size,
            pipeline=engine.pipeline_parallel_size,
            data=engine.data_parallel_size or 1,
            nodes=engine.nodes,
            utilization_percent=engine.gpu_memory_utilization_percent or self.context.utilization_percent,
            max_num_seqs=engine.max_num_seqs,
            full_length=self._full_length(architecture),
            adapters=adapters_of(extra),
            speculation=speculation,
            draft_bytes=draft_bytes,
            promise=Promise(
                time_to_first_token=slo.time_to_first_token.p95.seconds,
                inter_token_latency=slo.inter_token_latency.mean.seconds,
                end_to_end=slo.end_to_end.p95.seconds if slo.end_to_end else None,
            ),
            slo_texts={
                "timeToFirstToken": slo.time_to_first_token.p95.text,
                "interTokenLatency": slo.inter_token_latency.mean.text,
                "endToEnd": slo.end_to_end.p95.text if slo.end_to_end else "",
            },
            kv_target=scaling.targets.kv_cache_percent / 100,
            warm=self.spec.warm_pool.replicas,
            max_replicas=scaling.max_replicas if "max_replicas" in scaling.model_fields_set else None,
            batched_tokens=whole_number(extra.get("--max-num-batched-tokens")),
            engine_version=engine.version or self.context.engine_version,
            mix=self._mix(architecture),
            demand=self._demand(),
            assumptions=tuple(self.assumptions),
        )

    def _architecture(
        self, catalogue_model: CatalogueModel | None, config: CheckpointConfig | None
    ) -> Architecture | None:
        """The architecture of a config.json or the catalogue, with the manifest's fields over it."""
        given = self.spec.model.architecture or ArchitectureSpec()
        base = config.architecture if config else catalogue_model.architecture if catalogue_model else None
        if base is None and (missing := missing_fields(given)):
            self.problems.append(self._unknown_model(missing))
            return None
        architecture = with_given_fields(base, given)
        problems = contradictions(architecture)
        self.problems += problems
        return None if problems else architecture

    def _unknown_model(self, missing: list[str]) -> PlanProblem:
        similar = models_like(self.spec.model.source)
        remedies = [f"write {similar[0]} if you mean that model"] if similar else []
        remedies.append(f"set spec.model.architecture with {', '.join(missing)}")
        remedies.append("pass the checkpoint's config.json to forebay plan with --config")
        return PlanProblem(
            "spec.model.source",
            self.spec.model.source,
            "is not in the catalogue, and its architecture is not set",
            tuple(remedies),
            ProblemKind.UNKNOWN,
        )

    def _gpu(self) -> Gpu | None:
        spec = self.spec.gpu
        named = spec.product or product_of(spec.node_selector or {}) or product_of(self.spec.pod.node_selector or {})
        product = named or self.context.product
        if product is None:
            self.problems.append(
                PlanProblem(
                    "spec.gpu.product",
                    None,
                    "is not set, and memory and speed depend on the GPU",
                    (f"set it to a value of the node label {PRODUCT_LABELS[0]}", "pass --gpu to forebay plan"),
                    ProblemKind.UNKNOWN,
                )
            )
            return None
        card = gpu_of(product)
        if card is None:
            products = ", ".join(gpu.product for gpu in gpus().values())
            self.problems.append(
                PlanProblem(
                    "spec.gpu.product",
                    product,
                    "is not a GPU of the catalogue",
                    (f"use {products}",),
                    ProblemKind.UNKNOWN,
                )
            )
        elif named is None:
            self.assumptions.append(f"the manifest does not name a GPU; the plan is for {product}")
        return card

    def _check_pipeline(self, architecture: Architecture) -> None:
        stages = self.spec.engine.pipeline_parallel_size or 1
        if stages > architecture.layers:
            self.problems.append(
                PlanProblem(
                    "spec.engine.pipelineParallelSize",
                    stages,
                    f"is more than the {architecture.layers} layers of the model",
                    (f"use at most {architecture.layers}",),
                )
            )

    def _quantization(
        self, catalogue_model: CatalogueModel | None, config: CheckpointConfig | None
    ) -> Quantization | None:
        method = self.spec.model.quantization
        given = self.spec.model.architecture
        stated_bits = given.weight_bits if given else None
        checkpoint_bits = (config.bits if config else None) or (catalogue_model.bits if catalogue_model else None)
        quantization = quantization_of(method, checkpoint_bits, stated_bits)
        if quantization is not None:
            return quantization
        if method is None:
            self.assumptions.append("the checkpoint's precision is unknown; 16 bits per weight are assumed")
            return quantization_of("none", None, None)
        self.problems.append(
            PlanProblem(
                "spec.model.quantization",
                method,
                "does not determine the bits per weight",
                ("set spec.model.architecture.weightBits",),
                ProblemKind.UNKNOWN,
            )
        )
        return None

    def _full_length(self, architecture: Architecture) -> int:
        if self.spec.model.max_model_len is not None:
            return self.spec.model.max_model_len
        if architecture.context_tokens is not None:
            tokens = architecture.context_tokens
            self.assumptions.append(f"maxModelLen is not set; a request of the checkpoint's {tokens:,} tokens must fit")
            return tokens
        traffic = self.spec.traffic
        if traffic is None:
            self.assumptions.append("the longest request is unknown; set model.maxModelLen to check that it fits")
            return 1
        tokens = traffic.prompt_tokens + traffic.output_tokens
        self.assumptions.append(
            f"the longest request is unknown; one of {tokens:,} tokens, the mean of traffic, must fit"
        )
        return tokens

    def _mix(self, architecture: Architecture) -> Mix | None:
        if self.context.lengths:
            mix = Mix.of(self.context.lengths, architecture.tokens_read)
            self.assumptions.append(
                f"lengths are those of {len(self.context.lengths):,} recorded requests: on average "
                f"{mix.prompt_tokens:.0f} prompt tokens and {mix.output_tokens:.0f} output tokens"
            )
            return mix
        traffic = self.spec.traffic
        if traffic is None:
            return None
        self.assumptions.append(
            "all requests are assumed to have the mean length; forebay plan --trace reads recorded lengths"
        )
        return Mix.fixed(traffic.prompt_tokens, traffic.output_tokens, architecture.tokens_read)

    def _demand(self) -> MonthlyDemand | None:
        traffic = self.spec.traffic
        if traffic is None:
            return None
        if "peak_factor" not in traffic.model_fields_set:
            self.assumptions.append(f"traffic.peakFactor is not set; {traffic.peak_factor:g} is assumed")
        if "headroom" not in traffic.model_fields_set:
            self.assumptions.append(f"traffic.headroom is not set; {traffic.headroom:g} is assumed")
        tokens: float = traffic.prompt_tokens + traffic.output_tokens
        if self.context.lengths:
            tokens = round(Mix.of(self.context.lengths).tokens, 3)
        return MonthlyDemand.of(traffic.requests_per_month, traffic.peak_factor, traffic.headroom, tokens)

    def _speculation(self, shape: Architecture, quantization: Quantization) -> tuple[Speculation | None, int]:
        """The speculation and the bytes of the draft's weights, which are counted even if no gain is assumed."""
        given = self.spec.engine.speculative
        if given is None:
            return None, 0
        draft = model_of(given.model) if given.model else None
        parameters = draft.architecture.parameters if draft else None
        cost = draft_cost(given.method, shape.layers, shape.parameters, parameters)
        if given.draft_cost_percent is not None:
            cost = given.draft_cost_percent / 100
        if cost is None:
            self.assumptions.append(
                f"the draft {given.model} is not in the catalogue; its weights and its gain are not counted: set "
                "engine.speculative.draftCostPercent"
            )
            return None, 0
        bits = draft.bits if draft else quantization.bits
        draft_bytes = (parameters or int(shape.parameters * cost)) * bits // 8
        if given.acceptance_percent is None:
            self.assumptions.append(
                "engine.speculative.acceptancePercent is not set; no gain from speculation is assumed"
            )
            return None, draft_bytes
        speculation = Speculation(given.method, given.tokens, given.acceptance_percent / 100, cost)
        self.assumptions.append(
            f"speculation by {given.method}: {given.tokens} guesses per step at {given.acceptance_percent} % yield "
            f"{speculation.tokens_per_step:.2f} tokens; the step takes {speculation.step_factor:.2f} times as long"
        )
        return speculation, draft_bytes
