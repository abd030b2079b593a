"""Cost of a plan: its GPUs at the rates of a price list."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.capacity.plan.monthly_demand import MONTH_SECONDS, MonthlyDemand

MONTH_HOURS = MONTH_SECONDS // 3600


class PriceError(ValueError):
    """A problem of a price list, as one sentence."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A price list for GPUs."""

    currency: str = "USD"
    per_gpu_hour: Mapping[str, float] = field(default_factory=dict)
    """Price of one GPU for an hour, by product."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a fleet costs when all of it runs all the time."""

    currency: str
    per_hour: float
    per_month: float
    """Cost of 30 days."""
    per_million_tokens: float
    """Cost of a month divided by the month's tokens, per million."""


def read_prices(document: object) -> Prices:
    """Reads `currency: USD` and `gpuHours: {<product>: <price>}`. Raises PriceError."""
    if not isinstance(document, Mapping):
        raise PriceError("a price list is a map with gpuHours and, if it is not USD, currency")
    unknown = [str(key) for key in document if key not in ("currency", "gpuHours")]
    if unknown:
        raise PriceError(f"{unknown[0]}: unknown field; use currency and gpuHours")
    hours = document.get("gpuHours")
    if not isinstance(hours, Mapping) or not hours:
        raise PriceError("gpuHours: write a map from products such as NVIDIA-L4 to the price of an hour")
    for product, price in hours.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < 1e9:
            raise PriceError(f"gpuHours.{product}: {price!r} is not a price; write a number above 0")
    currency = document.get("currency", "USD")
    if not isinstance(currency, str) or not currency:
        raise PriceError(f"currency: {currency!r} is not a currency; write a text such as USD")
    return Prices(currency, {str(product): float(price) for product, price in hours.items()})


def cost_of(prices: Prices, product: str, gpus: int, demand: MonthlyDemand) -> Cost | None:
    """Cost of so many GPUs; None for a product without a price."""
    price = prices.per_gpu_hour.get(product)
    if price is None:
        return None
    hour = gpus * price
    month = hour * MONTH_HOURS
    tokens = float(demand.requests_per_month * demand.tokens_per_request)
    return Cost(prices.currency, hour, month, month / tokens * 1e6)
