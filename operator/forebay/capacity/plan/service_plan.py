"""The whole plan of a service: its sizing, napkin estimate, cost, base capacity, regions and variants."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from forebay.api.inference_service import GpuSpec, InferenceServiceSpec
from forebay.api.spec.variant_spec import BASE_VARIANT
from forebay.capacity.model.model_catalogue import gpu_of
from forebay.capacity.plan.cost import Cost, Prices, cost_of
from forebay.capacity.plan.monthly_demand import MonthlyDemand, asked_for
from forebay.capacity.plan.napkin import Napkin, differences, napkin_of
from forebay.capacity.plan.plan_input import PlanContext, read_plan_input, with_variant
from forebay.capacity.plan.plan_problem import PlanProblem, ProblemKind, UnplannableError
from forebay.capacity.plan.regions import Region, RegionPlan, plan_regions
from forebay.capacity.plan.sizing import CapacityPlan, size
from forebay.capacity.plan.traffic_shape import Base, bases, day_rates


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan is computed with, apart from the manifests."""

    context: PlanContext = field(default_factory=PlanContext)
    prices: Prices | None = None
    regions: tuple[Region, ...] = ()
    rates: tuple[float, ...] = ()
    """Recorded traffic as multiples of its average. If empty, a day with the manifest's peak factor is taken."""


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """The plan of one variant of the service."""

    name: str
    plan: CapacityPlan | None
    problems: tuple[PlanProblem, ...]
    cost: Cost | None

    @property
    def fits(self) -> bool:
        return self.plan is not None and not self.problems


@dataclass(frozen=True, slots=True)
class ServiceCapacityPlan:
    """The plan of a service with everything computed from it."""

    namespace: str
    name: str
    spec: InferenceServiceSpec
    plan: CapacityPlan | None
    """None when the manifest does not say enough."""
    problems: tuple[PlanProblem, ...]
    demand: MonthlyDemand | None
    napkin: Napkin | None = None
    differences: tuple[str, ...] = ()
    cost: Cost | None = None
    rates: tuple[float, ...] = ()
    bases: tuple[Base, ...] = ()
    regions: tuple[RegionPlan, ...] = ()
    variants: tuple[VariantPlan, ...] = ()
    """The service's own shape and its variants; empty without prices and variants."""
    cheapest: str | None = None
    """Name of the cheapest variant that keeps every promise; None without prices."""

    @property
    def unknown(self) -> bool:
        """Whether the manifest does not say enough to plan."""
        return any(problem.kind is ProblemKind.UNKNOWN for problem in self.problems)

    @property
    def gpus(self) -> int:
        return self.plan.fleet.gpus if self.plan and self.plan.fleet else 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all services."""

    tokens_per_minute: Fraction
    with_headroom: Fraction
    gpus: int
    cost: Cost | None
    """Cost of the services that have one; None if none has."""

    @property
    def asked_for(self) -> int:
        return asked_for(self.with_headroom)


def plan_service(
    namespace: str, name: str, spec: InferenceServiceSpec, settings: PlanSettings | None = None
) -> ServiceCapacityPlan:
    """The plan of a service. It never raises for a valid spec: if no plan is possible, the problems say why."""
    settings = settings or PlanSettings()
    try:
        plan_input = read_plan_input(spec, settings.context)
    except UnplannableError as error:
        return ServiceCapacityPlan(namespace, name, spec, None, error.problems, _demand(spec))
    plan = size(plan_input, settings.context)
    estimate = napkin_of(spec, plan_input, plan.replica.sizes.gpus_per_engine)
    variants = tuple(_variants(spec, plan, settings))
    rates = _rates(plan, settings)
    return ServiceCapacityPlan(
        namespace=namespace,
        name=name,
        spec=spec,
        plan=plan,
        problems=plan.problems,
        demand=plan_input.demand,
        napkin=estimate,
        differences=tuple(differences(estimate, plan)) if estimate else (),
        cost=_cost(plan, settings.prices),
        rates=rates,
        bases=_bases(plan, rates),
        regions=_regions(plan, settings.regions),
        variants=variants,
        cheapest=_cheapest(variants),
    )


def totals(plans: Iterable[ServiceCapacityPlan]) -> Totals:
    """The sums over all services. A service without a sizing still counts with its demand."""
    plans = tuple(plans)
    demands = [plan.demand for plan in plans if plan.demand is not None]
    return Totals(
        tokens_per_minute=sum((demand.tokens_per_minute for demand in demands), Fraction(0)),
        with_headroom=sum((demand.with_headroom for demand in demands), Fraction(0)),
        gpus=sum(plan.gpus for plan in plans),
        cost=_sum([(plan.cost, plan.demand) for plan in plans if plan.cost is not None and plan.demand is not None]),
    )


def _demand(spec: InferenceServiceSpec) -> MonthlyDemand | None:
    traffic = spec.traffic
    if traffic is None:
        return None
    tokens = traffic.prompt_tokens + traffic.output_tokens
    return MonthlyDemand.of(traffic.requests_per_month, traffic.peak_factor, traffic.headroom, tokens)


def _cost(plan: CapacityPlan, prices: Prices | None) -> Cost | None:
    if prices is None or plan.fleet is None or plan.plan_input.demand is None:
        return None
    return cost_of(prices, plan.plan_input.gpu.product, plan.fleet.gpus, plan.plan_input.demand)


def _rates(plan: CapacityPlan, settings: PlanSettings) -> tuple[float, ...]:
    if settings.rates or plan.plan_input.demand is None:
        return settings.rates
    return day_rates(float(plan.plan_input.demand.peak_factor))


def _bases(plan: CapacityPlan, rates: Sequence[float]) -> tuple[Base, ...]:
    """Base capacities up to the whole fleet. The headroom is taken off each replica's rate, so that it takes the whole
    fleet to serve all of the traffic."""
    demand = plan.plan_input.demand
    if plan.fleet is None or plan.throughput is None or demand is None:
        return ()
    replica_rate = plan.throughput.requests_per_second / float(demand.headroom)
    return bases(rates, float(demand.average), replica_rate, plan.fleet.active)


def _regions(plan: CapacityPlan, regions: Sequence[Region]) -> tuple[RegionPlan, ...]:
    if plan.fleet is None or not regions:
        return ()
    return plan_regions(regions, plan.fleet.exact, plan.fleet.warm, plan.replica.sizes.gpus)


def _variants(spec: InferenceServiceSpec, plan: CapacityPlan, settings: PlanSettings) -> Iterator[VariantPlan]:
    """The plans of the manifest's variants; with a price list and no variants, of every GPU that has a price."""
    if not spec.variants and settings.prices is None:
        return
    yield VariantPlan(BASE_VARIANT, plan, plan.problems, _cost(plan, settings.prices))
    for variant in spec.variants:
        yield _variant(variant.name, with_variant(spec, variant), settings)
    if spec.variants or settings.prices is None:
        return
    for product in settings.prices.per_gpu_hour:
        card = gpu_of(product)
        if card is not None and card != plan.plan_input.gpu:
            engine = spec.engine.model_copy(update={"tensor_parallel_size": None, "pipeline_parallel_size": None})
            other = spec.model_copy(update={"gpu": GpuSpec(product=product), "engine": engine})
            yield _variant(product, other, settings)


def _variant(name: str, spec: InferenceServiceSpec, settings: PlanSettings) -> VariantPlan:
    try:
        plan = size(read_plan_input(spec, settings.context), settings.context, advise=False)
    except UnplannableError as error:
        return VariantPlan(name, None, error.problems, None)
    return VariantPlan(name, plan, plan.problems, _cost(plan, settings.prices))


def _cheapest(variants: Sequence[VariantPlan]) -> str | None:
    priced = [(variant.cost.per_hour, variant.name) for variant in variants if variant.fits and variant.cost]
    return min(priced)[1] if priced else None


def _sum(priced: Sequence[tuple[Cost, MonthlyDemand]]) -> Cost | None:
    if not priced:
        return None
    month = sum(cost.per_month for cost, _ in priced)
    tokens = float(sum(demand.requests_per_month * demand.tokens_per_request for _, demand in priced))
    hour = sum(cost.per_hour for cost, _ in priced)
    return Cost(priced[0][0].currency, hour, month, month / tokens * 1e6)
