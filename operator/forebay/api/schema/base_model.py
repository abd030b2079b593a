"""What every model of the API shares: camelCase on the wire, frozen in memory, docstrings as descriptions."""

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from forebay.api.schema.validation_rules import VALIDATIONS, Rule, check

GROUP = "forebay.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Model(BaseModel):
    """A piece of a manifest. Unknown fields are ignored: the API server has pruned them, or is newer than we are."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )

    rules: ClassVar[tuple[Rule[Any], ...]] = ()
    """What must hold between the fields."""

    @model_validator(mode="after")
    def _obey_the_rules(self) -> Self:
        check(self.rules, self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler.resolve_ref_schema(handler(schema))
        if cls.rules:
            found[VALIDATIONS] = [rule.schema(cls) for rule in cls.rules]
        return found

    def wire(self) -> dict[str, Any]:
        """As a manifest: what was given and nothing else, so that no default of ours shows as drift."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
