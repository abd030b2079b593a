"""TenantQuota: what one tenant is guaranteed, and what it may use at most, of each model's tokens and of the GPUs."""

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from forebay.api.inference_service import LONGEST_NAME, ObjectMeta
from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, LabelValue, ListMap, Unique, text
from forebay.api.schema.validation_rules import CheckedBy, Rule
from forebay.api.spec.schedule_spec import DATE
from forebay.api.status import Condition, Generation, LargeCount, ShortText

TENANT_QUOTA_KIND = "TenantQuota"
MOST_NAMESPACES = 128
MOST_PRODUCTS = 16
MOST_KEYS = 128
MOST_SHARES = 256
MOST_GPUS = 1_000_000
MOST_TOKENS_PER_MINUTE = 1_000_000_000_000
LARGEST_WEIGHT = 1000

_NAMESPACE = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SERVICE = f"[a-z]([-a-z0-9]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?"
_TIME = f"({DATE})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of an empty text: what a pipe gives that carried no key."""

TenantName = Annotated[
    str,
    Field(max_length=LONGEST_NAME),
    CheckedBy(text(_SERVICE, "is not the name of a TenantQuota; use lower case letters, digits and '-'")),
]
NamespaceName = Annotated[
    str,
    Field(max_length=63),
    CheckedBy(text(_NAMESPACE, "is not the name of a namespace; use lower case letters, digits and '-'")),
]
KeyName = Annotated[
    str,
    Field(max_length=63),
    CheckedBy(text(_NAMESPACE, "is not the name of a key; use lower case letters, digits and '-'")),
]
ModelName = Annotated[
    str,
    Field(max_length=64 + LONGEST_NAME),
    CheckedBy(
        text(
            f"{_NAMESPACE}/{_SERVICE}",
            "is not the name of a model; write namespace/name of its InferenceService, such as chat/llama-8b",
        )
    ),
]
KeyHash = Annotated[
    str,
    Field(max_length=64),
    CheckedBy(
        text("[0-9a-f]{64}", "is not a SHA-256; write 64 lower case hexadecimal digits, as `forebay key create` does"),
        Rule[str](
            cel=f"self != '{_OF_NOTHING}'",
            message="this is the SHA-256 of an empty text; hash the key itself, as `forebay key create` does",
            holds=lambda value: value != _OF_NOTHING,
        ),
    ),
]
ExpiryTime = Annotated[
    str,
    Field(max_length=25),
    CheckedBy(
        text(_TIME, "is not a time; write date and time to the second with its offset, such as 2027-01-31T18:00:00Z")
    ),
]
Gpus = Annotated[Count, Field(ge=0, le=MOST_GPUS)]
TokensPerMinute = Annotated[Count, Field(ge=0, le=MOST_TOKENS_PER_MINUTE)]


class TenantClass(StrEnum):
    """What comes first when there is not enough for all: Interactive before Batch."""

    INTERACTIVE = "Interactive"
    BATCH = "Batch"


class QuotaMode(StrEnum):
    """Whether a quota acts: Enforce, or Shadow, which counts and reports what it would have done."""

    ENFORCE = "Enforce"
    SHADOW = "Shadow"


_EACH_PRODUCT_ONCE = Rule[tuple["GpuQuota", ...]](
    cel="self.all(one, self.exists_one(other, has(one.product) == has(other.product)"
    " && (!has(one.product) || one.product == other.product)))",
    message="a product appears twice, or two entries leave it out; keep one entry for each",
    holds=lambda gpus: len({entry.product for entry in gpus}) == len(gpus),
)
_EACH_HASH_ONCE = Rule[tuple["ApiKey", ...]](
    cel="self.all(one, self.exists_one(other, one.sha256 == other.sha256))",
    message="a sha256 appears twice; keep one entry for each key",
    holds=lambda keys: len({key.sha256 for key in keys}) == len(keys),
)


class GpuQuota(Model):
    """GPUs of one product that the services of the tenant's namespaces may use together."""

    rules = (
        Rule["GpuQuota"](
            cel="!has(self.guaranteed) || !has(self.limit) || self.guaranteed <= self.limit",
            message="guaranteed $guaranteed is above limit $limit:0; raise limit or lower guaranteed",
            holds=lambda gpus: gpus.guaranteed is None or gpus.limit is None or gpus.guaranteed <= gpus.limit,
            at="guaranteed",
        ),
        Rule["GpuQuota"](
            cel="has(self.guaranteed) || has(self.limit)",
            message="an entry of gpus needs guaranteed or limit; set one of them, or leave the entry out",
            holds=lambda gpus: gpus.guaranteed is not None or gpus.limit is not None,
        ),
    )

    product: LabelValue | None = None
    """Value of the node label `nvidia.com/gpu.product`, such as NVIDIA-H100-80GB-HBM3. Absent: the entry holds for
    each product that has no entry of its own."""
    guaranteed: Gpus | None = None
    """GPUs that the tenant gets whenever its services ask for them. Absent: none."""
    limit: Gpus | None = None
    """GPUs that its services may use together. Absent: no limit."""


class ApiKey(Model):
    """A key that callers of the tenant send, by its hash: the key itself is never stored."""

    name: KeyName
    """Name of the key, unique within the quota."""
    sha256: KeyHash
    """SHA-256 of a random key of at least 128 bits, as 64 hexadecimal digits. `forebay key create` makes both."""
    tenant_class: Annotated[TenantClass | None, Field(alias="class")] = None
    """Class of the requests with this key. Absent: that of the share, else of the quota."""
    expires_at: ExpiryTime | None = None
    """When the key ends, such as 2027-01-31T18:00:00Z. Absent: never."""


class ModelShare(Model):
    """What the tenant may use of one model, in tokens per minute of prompts and outputs together, normalized by work:
    see docs/design/tenants.md."""

    rules = (
        Rule["ModelShare"](
            cel="!has(self.guaranteed) || !has(self.limit) || self.guaranteed <= self.limit",
            message="guaranteed $guaranteed is above limit $limit:0; raise limit or lower guaranteed",
            holds=lambda share: share.guaranteed is None or share.limit is None or share.guaranteed <= share.limit,
            at="guaranteed",
        ),
    )

    model: ModelName
    """The InferenceService, as namespace/name."""
    guaranteed: TokensPerMinute | None = None
    """Tokens per minute that the tenant gets whenever it asks for them. What it leaves is lent to others. Absent:
    none; for a tenant that others name as parent, the sum of their guarantees."""
    limit: TokensPerMinute | None = None
    """Tokens per minute at most, even if capacity is idle. Absent: no limit."""
    tenant_class: Annotated[TenantClass | None, Field(alias="class")] = None
    """Class of the tenant's use of this model. Absent: that of the quota."""
    requests_per_minute: Annotated[Count, Field(ge=1, le=1_000_000_000)] | None = None
    """Requests per minute at most. Absent: no limit."""
    concurrency: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    """Requests at the same time at most. Absent: no limit."""


class QuotaSpec(Model):
    """Who the tenant is, and what it is guaranteed and limited to."""

    parent: TenantName | None = None
    """TenantQuota that this one is a part of, such as the organisation of a team. The guarantees and limits of the
    parent hold for all its children together."""
    namespaces: Annotated[tuple[NamespaceName, ...], Field(max_length=MOST_NAMESPACES), Unique()] = ()
    """Namespaces of the tenant. Of several quotas that name the same namespace, the oldest has it."""
    gpus: Annotated[tuple[GpuQuota, ...], Field(max_length=MOST_PRODUCTS), CheckedBy(_EACH_PRODUCT_ONCE)] = ()
    """GPUs of the services in these namespaces, by product."""
    api_keys: Annotated[
        tuple[ApiKey, ...], Field(max_length=MOST_KEYS), ListMap("name"), CheckedBy(_EACH_HASH_ONCE)
    ] = ()
    """Keys of the tenant's callers. Of several quotas with the same hash, the oldest has it."""
    tenant_class: Annotated[TenantClass, Field(alias="class")] = TenantClass.INTERACTIVE
    """Interactive comes before Batch when there is not enough for all. Guarantees of either class come first."""
    mode: QuotaMode = QuotaMode.ENFORCE
    """Shadow counts and reports what the quota would have done, and changes nothing for anybody."""
    weight: Annotated[Count, Field(ge=1, le=LARGEST_WEIGHT)] = 1
    """Share of what is left after all guarantees, against the other tenants with the same parent."""
    shares: Annotated[tuple[ModelShare, ...], Field(max_length=MOST_SHARES), ListMap("model")] = ()
    """What the tenant may use of each model. A model that is not listed may not be called."""


class ShareAmounts(Model):
    """How much is asked for, and who has it. A field is absent while its value is unknown."""

    guaranteed: LargeCount | None = None
    """What the quota guarantees."""
    asked: LargeCount | None = None
    """What the tenant would use if it could."""
    granted: LargeCount | None = None
    """What it may use now."""
    used: LargeCount | None = None
    """What it uses."""
    borrowed: LargeCount | None = None
    """The part of granted that others leave to it, and take back when they ask for it."""
    lent: LargeCount | None = None
    """What it leaves to others because it asks for less than its own part."""


class ModelShareStatus(ShareAmounts):
    """The tenant's part of one model, in normalized tokens per minute."""

    model: ShortText
    """The InferenceService, as namespace/name."""


class GpuShareStatus(ShareAmounts):
    """The tenant's part of one GPU product, in GPUs."""

    product: ShortText
    """Value of the node label `nvidia.com/gpu.product`; `unknown` for services that may use any."""


class Attribution(StrEnum):
    """Namespace: what a service uses counts for the tenant of the service's namespace, whoever called it."""

    NAMESPACE = "Namespace"


class QuotaStatus(Model):
    """The state that Forebay reports of a quota. It names no other tenant's use."""

    observed_generation: Generation = 0
    """The generation of the spec that this status is about."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16), ListMap("type")] = ()
    """Conditions by type: Ready and GuaranteesCovered."""
    attribution: Attribution | None = None
    """How use was attributed to the tenant."""
    tokens: ShareAmounts | None = None
    """Sums over all models, in normalized tokens per minute. A sum is absent while one of its parts is unknown."""
    gpus: ShareAmounts | None = None
    """Sums over all GPU products, in GPUs, likewise."""
    models: Annotated[tuple[ModelShareStatus, ...], Field(max_length=MOST_SHARES), ListMap("model")] = ()
    """The tenant's part of each model, in the order of names; of more than 256, those with the most use."""
    gpu_products: Annotated[tuple[GpuShareStatus, ...], Field(max_length=MOST_PRODUCTS), ListMap("product")] = ()
    """The tenant's part of each GPU product."""


class TenantQuota(Model):
    """What one tenant is guaranteed and limited to: tokens per minute of each model, and GPUs. A tenant is a team or an
    organisation of teams."""

    rules = (
        Rule["TenantQuota"](
            cel=f"self.metadata.name.size() <= {LONGEST_NAME}"
            " && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message='metadata.name "$metadata.name" is not the name of a tenant; use at most '
            f"{LONGEST_NAME} lower case letters, digits and '-', beginning with a letter",
            holds=lambda quota: (
                len(quota.metadata.name) <= LONGEST_NAME
                and re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", quota.metadata.name) is not None
            ),
            at="metadata.name",
        ),
        Rule["TenantQuota"](
            cel="!has(self.spec.parent) || self.spec.parent != self.metadata.name",
            message='spec.parent "$metadata.name" is this quota itself; name another TenantQuota, or leave parent out',
            holds=lambda quota: quota.spec.parent is None or quota.spec.parent != quota.metadata.name,
            at="spec.parent",
        ),
    )

    api_version: Literal["forebay.dev/v1alpha1"]
    """Always forebay.dev/v1alpha1."""
    kind: Literal["TenantQuota"]
    """Always TenantQuota, of the group forebay.dev."""
    metadata: ObjectMeta
    """Standard metadata."""
    spec: QuotaSpec
    """Who the tenant is, and what it is guaranteed and limited to."""
    status: QuotaStatus | None = None
    """The state that Forebay reports of a quota."""
