"""The traffic that a service is planned for. Scaling never reads it: it follows what really arrives."""

from typing import Annotated

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, Number

DEFAULT_PEAK_FACTOR = 4
DEFAULT_HEADROOM = 1.5


class TrafficSpec(Model):
    """What the capacity plan, and the quota to ask for, are computed from."""

    requests_per_month: Annotated[Count, Field(ge=1, le=1_000_000_000_000)]
    """Requests in 30 days."""
    peak_factor: Annotated[Number, Field(ge=1, le=1000)] = DEFAULT_PEAK_FACTOR
    """The busiest minutes as a multiple of the average."""
    prompt_tokens: Annotated[Count, Field(ge=1, le=10_000_000)]
    """Tokens of a prompt, on average."""
    output_tokens: Annotated[Count, Field(ge=1, le=10_000_000)]
    """Tokens of an answer, on average."""
    headroom: Annotated[Number, Field(ge=1, le=100)] = DEFAULT_HEADROOM
    """The peak is multiplied with it to size the plan and the quota."""
