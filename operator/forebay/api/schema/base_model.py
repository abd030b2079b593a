"""The base class of all API models: camelCase in manifests, frozen in memory, docstrings as descriptions."""

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
    """A part of a manifest. Unknown fields are ignored: they come from a CRD that is newer than this code."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )

    rules: ClassVar[tuple[Rule[Any], ...]] = ()
    """Conditions that the fields must satisfy together."""

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        check(self.rules, self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler.resolve_ref_schema(handler(schema))
        if cls.rules:
            json_schema[VALIDATIONS] = [rule.schema(cls) for rule in cls.rules]
        return json_schema

    def wire(self) -> dict[str, Any]:
        """The manifest with only the fields that were given, so that defaults never show as drift."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
