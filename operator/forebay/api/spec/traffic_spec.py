"""The traffic that a service is planned for. Scaling never reads it, because it follows the real load."""

from typing import Annotated

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, Number

DEFAULT_PEAK_FACTOR = 4
DEFAULT_HEADROOM = 1.5


class TrafficSpec(Model):
    """The expected traffic, from which the capacity plan and the quota to ask for are computed."""

    requests_per_month: Annotated[Count, Field(ge=1, le=1_000_000_000_000)]
    """Requests in 30 days."""
    peak_factor: Annotated[Number, Field(ge=1, le=1000)] = DEFAULT_PEAK_FACTOR
    """Load of the busiest minutes as a multiple of the average."""
    prompt_tokens: Annotated[Count, Field(ge=1, le=10_000_000)]
    """Mean prompt tokens per request."""
    output_tokens: Annotated[Count, Field(ge=1, le=10_000_000)]
    """Mean output tokens per request."""
    headroom: Annotated[Number, Field(ge=1, le=100)] = DEFAULT_HEADROOM
    """Factor by which the peak is multiplied to size the plan and the quota."""
