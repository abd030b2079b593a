"""Everything computed from a plan: cost, base and spill-over, regions, variants, totals."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.capacity.plan.cost import PriceError, Prices, read_prices
from forebay.capacity.plan.regions import RegionError, plan_regions, read_regions
from forebay.capacity.plan.service_plan import PlanSettings, plan_service, totals
from forebay.capacity.plan.traffic_shape import bases, day_rates, recorded_rates
from tests.capacity.specs import H100, LLAMA_8B, LLAMA_70B, a_spec, traffic

PRICES = Prices("EUR", {H100: 2.5, "NVIDIA-L40S": 0.9, "NVIDIA-H200": 3.5})


def a_plan(*arguments, settings: PlanSettings | None = None, **blocks):
    return plan_service("team-a", "chat", a_spec(*arguments, **blocks), settings)


class TestCost:
    def test_by_hand(self):
        """Three H100 at 2.50 for 720 hours, over 700 × 259,200,000 tokens."""
        cost = a_plan(settings=PlanSettings(prices=PRICES)).cost
        assert cost is not None
        assert (cost.currency, cost.per_hour, cost.per_month) == ("EUR", 7.5, 5400.0)
        assert cost.per_million_tokens == pytest.approx(5400 / (700 * 259.2))

    def test_a_card_without_a_price_has_no_cost(self):
        assert a_plan(settings=PlanSettings(prices=Prices("EUR", {"NVIDIA-L4": 1.0}))).cost is None

    def test_a_price_list_is_read(self):
        assert read_prices({"currency": "EUR", "gpuHours": {H100: 3}}) == Prices("EUR", {H100: 3.0})
        assert read_prices({"gpuHours": {H100: 2.5}}).currency == "USD"

    @pytest.mark.parametrize(
        ("document", "says"),
        [
            ([], "a price list is a map with gpuHours"),
            ({}, "gpuHours: write a map from products"),
            ({"gpuHours": {H100: "2.50"}}, "gpuHours.NVIDIA-H100-80GB-HBM3: '2.50' is not a price"),
            ({"gpuHours": {H100: 0}}, "0 is not a price"),
            ({"gpuHours": {H100: True}}, "True is not a price"),
            ({"gpuHours": {H100: float("nan")}}, "nan is not a price"),
            ({"gpuHours": {H100: 1}, "currency": 5}, "currency: 5 is not a currency"),
            ({"gpuHours": {H100: 1}, "euros": 5}, "euros: unknown field"),
        ],
    )
    def test_an_invalid_price_list_is_refused(self, document, says):
        with pytest.raises(PriceError, match=says):
            read_prices(document)


class TestVariants:
    def test_with_prices_every_priced_card_is_tried_and_the_cheapest_named(self):
        result = a_plan(settings=PlanSettings(prices=PRICES))
        assert [variant.name for variant in result.variants] == ["base", "NVIDIA-L40S", "NVIDIA-H200"]
        costs = {variant.name: variant.cost.per_hour for variant in result.variants if variant.cost and variant.fits}
        assert result.cheapest == min(costs, key=lambda name: costs[name])

    def test_variants_of_the_manifest_replace_priced_gpus(self):
        variants = [
            {"name": "one", "gpu": {"product": "NVIDIA-L40S"}},
            {"name": "two", "gpu": {"product": "NVIDIA-L40S"}, "engine": {"tensorParallelSize": 2}},
            {"name": "few", "engine": {"maxNumSeqs": 16}},
            {"name": "unheard-of", "gpu": {"product": "NVIDIA-K80"}},
        ]
        result = a_plan(variants=variants, settings=PlanSettings(prices=PRICES))
        plans = {variant.name: variant.plan for variant in result.variants}
        assert list(plans) == ["base", "one", "two", "few", "unheard-of"]
        assert plans["two"] is not None
        assert plans["two"].replica.sizes.tensor == 2
        assert plans["few"] is not None
        assert (plans["few"].plan_input.max_num_seqs, plans["few"].plan_input.gpu.product) == (16, H100)
        assert plans["unheard-of"] is None
        assert not result.variants[4].fits

    def test_a_variant_that_breaks_a_promise_is_never_the_cheapest(self):
        """The L4 cannot keep 40 ms for 8B, however little it costs."""
        cheap = PlanSettings(prices=Prices("EUR", {H100: 2.5, "NVIDIA-L4": 0.01}))
        result = a_plan(model={"maxModelLen": 8192}, settings=cheap)
        assert [variant.fits for variant in result.variants] == [True, False]
        assert result.cheapest == "base"

    def test_without_prices_nothing_is_compared(self):
        assert (a_plan().variants, a_plan().cheapest) == ((), None)


class TestBaseAndSpill:
    @pytest.mark.parametrize("peak", [1, 1.5, 2, 3, 5, 20])
    def test_a_day_has_its_mean_and_its_peak(self, peak):
        rates = day_rates(peak)
        assert sum(rates) / len(rates) == pytest.approx(1)
        assert max(rates) == pytest.approx(peak)
        assert min(rates) >= 0

    def test_by_hand(self):
        """Rates 1 and 3 of an average of 10 a second: 10 and 30 requests; one replica serves 20."""
        result = bases((0.5, 1.5), 20, 20, 2)
        assert [(base.replicas, base.share_of_requests, base.share_of_time) for base in result] == [
            (0, 0.0, 0.0),
            (1, 0.75, 0.5),
            (2, 1.0, 1.0),
        ]

    def test_a_larger_base_serves_more_and_all_replicas_serve_all(self):
        result = a_plan(traffic=traffic(peak=4, headroom=1.5)).bases
        shares = [base.share_of_requests for base in result]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
        assert result[-1].share_of_time == 1

    def test_large_fleets_are_shown_in_steps(self):
        result = a_plan(traffic=traffic(peak=100, headroom=1.2)).bases
        assert len(result) <= 26
        assert result[-1].replicas == 257

    def test_a_recording_gives_its_own_shape(self):
        times = [0, 1, 2, 61, 119, 130, 185]
        assert recorded_rates(times) == (3 / 2, 2 / 2, 1 / 2)
        assert recorded_rates([5.0, 6.0]) == (1.0,)
        assert recorded_rates([]) == (1.0,)


class TestRegions:
    def test_region_shares_may_have_any_sum(self):
        assert [(region.name, region.share) for region in read_regions("north=50, south=30,west=20")] == [
            ("north", Fraction(1, 2)),
            ("south", Fraction(3, 10)),
            ("west", Fraction(1, 5)),
        ]

    def test_each_region_can_take_over_for_any_other(self):
        """10 replicas in all: north without south 50/70, south without north 30/50, west without north 20/50."""
        north, south, west = plan_regions(read_regions("north=50,south=30,west=20"), 10.0, 1, 4)
        assert (north.active, north.lost, north.gpus) == (8, "south", 36)
        assert (south.active, south.lost) == (6, "north")
        assert (west.active, west.lost) == (4, "north")

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("north", '"north" is not name=share'),
            ("north=", '"north=" is not name=share'),
            ("north=0,south=1", '"north=0" is not name=share'),
            ("north=1,north=2", '"north" appears twice'),
            ("north=1", "name two or more"),
            ("", '"" is not name=share'),
            ("a=1/0,b=1", "is not name=share"),
        ],
    )
    def test_an_invalid_list_of_regions_is_refused(self, text, says):
        with pytest.raises(RegionError, match=says):
            read_regions(text)

    @given(st.lists(st.integers(1, 100), min_size=2, max_size=6), st.floats(0.1, 500))
    def test_the_other_regions_carry_the_traffic_of_any_lost_one(self, shares, exact):
        regions = read_regions(",".join(f"r{index}={share}" for index, share in enumerate(shares)))
        plans = plan_regions(regions, exact, 0, 1)
        for lost in plans:
            assert sum(plan.active for plan in plans if plan is not lost) >= exact * (1 - 1e-9)


class TestTotals:
    def test_reference_sum(self):
        plans = [
            plan_service("a", "chat", a_spec(traffic=traffic(1_000_000, 5, 3000, 1000, 1.5))),
            plan_service("a", "search", a_spec(traffic=traffic(6_000_000, 4, 600, 260, 1.5))),
        ]
        result = totals(plans)
        assert round(result.tokens_per_minute) == 940_741
        assert round(result.with_headroom) == 1_411_111
        assert result.asked_for == 1_500_000
        assert result.gpus == sum(plan.gpus for plan in plans) > 0

    def test_costs_add_up_and_their_tokens_too(self):
        settings = PlanSettings(prices=PRICES)
        plans = [a_plan(settings=settings), a_plan(LLAMA_70B, settings=settings)]
        result = totals(plans).cost
        assert result is not None
        assert result.per_hour == sum(plan.cost.per_hour for plan in plans if plan.cost)
        assert result.per_million_tokens == pytest.approx(result.per_month / (2 * 700 * 259.2))

    def test_a_service_without_sizing_counts_in_the_quota(self):
        unknown = plan_service("a", "new", a_spec("hf://someone/new"))
        assert (unknown.plan, unknown.unknown, unknown.gpus) == (None, True, 0)
        assert totals([unknown]).tokens_per_minute == 100 * 60 * 700

    def test_no_services_need_no_quota(self):
        assert totals([]).asked_for == 0


def test_a_plan_contains_cost_bases_regions_and_variants():
    result = plan_service(
        "team-a",
        "chat",
        a_spec(LLAMA_8B, traffic=traffic(peak=2, headroom=1.2)),
        PlanSettings(prices=PRICES, regions=read_regions("a=1,b=1")),
    )
    assert result.problems == ()
    assert result.napkin is not None
    assert result.differences != ()
    assert [region.active for region in result.regions] == [6, 6]
