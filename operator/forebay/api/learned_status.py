"""What was learned of a service, kept in its status, so that an operator that starts does not begin anew.

It is read back leniently: what cannot be read is worth an event, never a failure.
"""

from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, ListMap

LEARNED_VERSION: Final = 1
"""Of the format. What another version wrote is not read."""
UNREADABLE_VERSION: Final = 0
_LATEST_VERSION: Final = 1000
MOST_REQUESTS: Final = 1_000_000_000

Seconds = Annotated[Count, Field(ge=1, le=3600)]
Tokens = Annotated[Count, Field(ge=0, le=10_000_000)]
Pairs = Annotated[Count, Field(ge=0, le=1_000_000)]


class StartTimes(Model):
    """Creation to Ready, in seconds."""

    p50_seconds: Seconds
    """Half of the starts take no longer; the prior while too little is known."""
    p95_seconds: Seconds
    """95 of 100 starts take no longer; the prior while too little is known."""
    seconds: Annotated[tuple[Seconds, ...], Field(max_length=32)] = ()
    """The last starts, oldest first."""


class LeadTimeStatus(Model):
    """How long replicas take to start, by what they start on."""

    placeholder_node: StartTimes
    """A place that a placeholder held."""
    ready_node: StartTimes
    """A node with free GPUs. Time without a place is left out."""
    new_node: StartTimes
    """A node that was added meanwhile."""
    counted_until: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the newest replica of all these became ready; those that became ready later are counted anew after a restart
    of the operator."""


class GrowthDay(Model):
    """How often the arriving work grew by how much, on one day."""

    date: Annotated[str, Field(max_length=10, json_schema_extra={"format": "date"})]
    """UTC."""
    steps: Annotated[tuple[Pairs, ...], Field(max_length=51)]
    """The first number: no growth; then up to 2 %, up to 4 %, and so on; the 51st: more than 98 %."""


class GrowthStatus(Model):
    """By how much the arriving work grows within the lead time."""

    p95_percent: Annotated[Count, Field(ge=0, le=100)] = 0
    """95 of 100 lead times saw no more growth; 0 while too little is known."""
    days: Annotated[tuple[GrowthDay, ...], Field(max_length=3), ListMap("date")] = ()
    """The newest days on which anything was seen, oldest first."""


class LengthsStatus(Model):
    """Mean lengths of the requests that finished lately; all 0 before any were seen."""

    prompt_tokens: Tokens = 0
    """Prompt tokens per request."""
    output_tokens: Tokens = 0
    """Answer tokens per request."""
    computed_percent: Annotated[Count, Field(ge=0, le=100)] = 0
    """Of the prompt tokens, those that a prefix cache did not spare."""
    requests: Annotated[Count, Field(ge=0, le=MOST_REQUESTS)] = 0
    """Finished requests that they rest on, the older ones counted less."""


class LearnedStatus(Model):
    """What was learned of this service. Deleting it makes the operator start from priors when it next starts."""

    version: Annotated[Count, Field(ge=0, le=_LATEST_VERSION)]
    """Of the format."""
    lead_time: LeadTimeStatus | None = None
    """Creation to Ready."""
    growth: GrowthStatus | None = None
    """Of the arriving work."""
    lengths: LengthsStatus | None = None
    """Of requests; what arriving work is counted with until enough requests were seen anew."""


def _leniently(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is int and 0 <= version <= _LATEST_VERSION and version != LEARNED_VERSION:
        return LearnedStatus(version=version)
    try:
        return read(value)
    except ValidationError:
        return LearnedStatus(version=UNREADABLE_VERSION)


Learned = Annotated[LearnedStatus | None, WrapValidator(_leniently)]
"""Of version 0 when what is stored cannot be read: that must not cost the rest of the status."""
