"""Speculative decoding: a cheap draft guesses tokens, and the model checks them all in one step."""

from typing import Annotated, Literal

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, text
from forebay.api.schema.validation_rules import CheckedBy, Rule, literal

SpeculativeMethod = Literal["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp"]
NEED_A_MODEL = ("draft_model", "eagle", "eagle3")

_NEEDING = ", ".join(literal(method) for method in NEED_A_MODEL)

HubSource = Annotated[
    str,
    Field(max_length=512),
    CheckedBy(
        text(
            r"hf://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*",
            "is not a model of the hub; write hf://organization/name",
        )
    ),
]


class SpeculativeSpec(Model):
    """A draft that guesses tokens, which the model then checks."""

    rules = (
        Rule["SpeculativeSpec"](
            cel=f"!(self.method in [{_NEEDING}]) || has(self.model)",
            message='"$method" needs a draft model or head; set model, or use ngram',
            holds=lambda spec: spec.method not in NEED_A_MODEL or spec.model is not None,
            at="model",
        ),
    )

    method: SpeculativeMethod
    """How tokens are guessed: from the text so far (`ngram`, `suffix`), by a small model (`draft_model`), by a head
    trained for this model (`eagle`, `eagle3`), or by layers of the checkpoint itself (`mtp`)."""
    model: HubSource | None = None
    """The draft model or head."""
    tokens: Annotated[Count, Field(ge=1, le=32)] = 3
    """Tokens guessed for each step."""
    acceptance_percent: Annotated[Count, Field(ge=0, le=100)] | None = None
    """How often a guess is right, given that the guesses before it were right; measure it on your own traffic. Absent:
    the plan assumes no gain."""
    draft_cost_percent: Annotated[Count, Field(ge=0, le=100)] | None = None
    """Time of one guess as a share of a step of the model. Absent: 0 for ngram and suffix, one and a half layers for
    heads, the ratio of parameters for a draft model of the built-in catalogue."""
