"""What the operator learned about a service, stored in the service's status so that it survives a restart.

The stored data is read leniently: unreadable data causes an Event and never fails the rest of the status.
"""

from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, ListMap

LEARNED_VERSION: Final = 1
"""Version of the format. Data of any other version is not read."""
UNREADABLE_VERSION: Final = 0
_LATEST_VERSION: Final = 1000
MOST_REQUESTS: Final = 1_000_000_000

Seconds = Annotated[Count, Field(ge=1, le=3600)]
Tokens = Annotated[Count, Field(ge=0, le=10_000_000)]
LeadTimeCount = Annotated[Count, Field(ge=0, le=1_000_000)]


class StartTimes(Model):
    """How long starts took from creation to Ready, in seconds."""

    p50_seconds: Seconds
    """Half of the starts take no longer. While too few starts are known, this is the prior."""
    p95_seconds: Seconds
    """95 of 100 starts take no longer. While too few starts are known, this is the prior."""
    seconds: Annotated[tuple[Seconds, ...], Field(max_length=32)] = ()
    """The last starts, oldest first."""


class LeadTimeStatus(Model):
    """How long replicas take to start, by the kind of node they start on."""

    placeholder_node: StartTimes
    """Starts on GPUs that a placeholder held."""
    ready_node: StartTimes
    """Starts on a node with free GPUs. The time that a pod waited for GPUs is left out."""
    new_node: StartTimes
    """Starts on a node that was added while the pod waited."""
    counted_until: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the newest counted replica became ready. After a restart the operator counts replicas that became ready
    later."""


class GrowthDay(Model):
    """Histogram of how much the arriving work grew within a lead time, over one day."""

    date: Annotated[str, Field(max_length=10, json_schema_extra={"format": "date"})]
    """The day, in UTC."""
    steps: Annotated[tuple[LeadTimeCount, ...], Field(max_length=51)]
    """Observations per bucket of growth: the first bucket is no growth, the next up to 2 %, then up to 4 %, and so on;
    the 51st is more than 98 %."""


class GrowthStatus(Model):
    """How much the arriving work grows within the lead time."""

    p95_percent: Annotated[Count, Field(ge=0, le=100)] = 0
    """95 of 100 lead times had no more growth than this; 0 while too few observations are known."""
    days: Annotated[tuple[GrowthDay, ...], Field(max_length=3), ListMap("date")] = ()
    """The newest days with observations, oldest first."""


class LengthsStatus(Model):
    """Mean lengths of recently finished requests; all 0 before the first one."""

    prompt_tokens: Tokens = 0
    """Prompt tokens per request."""
    output_tokens: Tokens = 0
    """Output tokens per request."""
    computed_percent: Annotated[Count, Field(ge=0, le=100)] = 0
    """Percentage of the prompt tokens that the engine computed, because the prefix cache did not hold them."""
    requests: Annotated[Count, Field(ge=0, le=MOST_REQUESTS)] = 0
    """Finished requests behind these means; older requests count less."""


class LearnedStatus(Model):
    """What the operator learned about this service. After it is deleted, the next start of the operator begins with
    priors."""

    version: Annotated[Count, Field(ge=0, le=_LATEST_VERSION)]
    """Version of the format."""
    lead_time: LeadTimeStatus | None = None
    """How long replicas take from creation to Ready."""
    growth: GrowthStatus | None = None
    """How much the arriving work grows within the lead time."""
    lengths: LengthsStatus | None = None
    """Mean lengths of requests. A restarted operator uses them until enough new requests have finished."""


def _read_leniently(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    version = value.get("version") if isinstance(value, dict) else None
    if type(version) is int and 0 <= version <= _LATEST_VERSION and version != LEARNED_VERSION:
        return LearnedStatus(version=version)
    try:
        return read(value)
    except ValidationError:
        return LearnedStatus(version=UNREADABLE_VERSION)


Learned = Annotated[LearnedStatus | None, WrapValidator(_read_leniently)]
"""Learned data read leniently: unreadable data becomes version 0, so that the rest of the status is still read."""
