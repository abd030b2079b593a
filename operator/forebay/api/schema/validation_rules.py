"""Validation rules, written once for the API server and for the command line, which validates without a cluster.

A rule has three parts that mean the same: a CEL expression for the API server, a Python predicate for manifests that
are read without one, and the message that both show. Tests check that the two verdicts agree.

In `cel` and `message`, `$` refers to a field by its JSON name: `$minReplicas` is that field or, when it is absent, the
default of the model, so that a default is written in one place. `$tensorParallelSize:1` gives the fallback for a field
whose value is decided later when it is absent. `$self` is the whole value.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

T = TypeVar("T")

VALIDATIONS = "x-kubernetes-validations"
RULE_ERROR = "rule"
"""Type of the pydantic error for a broken rule."""
_REFERENCE = re.compile(r"\$([A-Za-z]\w*(?:\.\w+)*)(?::(\w+))?")
_UNREADABLE = re.compile(r'"?\$[A-Za-z]\w*(?:\.\w+)*(?::\w+)?"?')


@dataclass(frozen=True)
class Rule(Generic[T]):
    """A condition that a value must satisfy. (No slots: `Rule[X](…)` stores its type on the instance.)"""

    cel: str
    message: str
    """The value, the reason and the remedy; code that shows the message puts the field's path in front."""
    holds: Callable[[T], bool]
    """Whether a value satisfies the rule; never raises for a value within its type and bounds."""
    at: str | None = None
    """JSON name of the field that the message is about, if the rule belongs to the field's parent."""

    def sentence(self, value: Any) -> str:
        """The message with the fields' values filled in."""
        text = _REFERENCE.sub(lambda match: _shown(value, match), self.message)
        return text if text.isprintable() else self._plain_sentence()

    def schema(self, model: type[BaseModel] | None) -> dict[str, str]:
        """An entry of `x-kubernetes-validations`; `model` has the fields that `$` refers to."""
        entry = {"rule": _REFERENCE.sub(lambda match: _as_cel(model, match), self.cel)}
        entry["message"] = self._plain_sentence()
        if _REFERENCE.search(self.message):
            entry["messageExpression"] = self._message_expression(model)
        if self.at:
            entry["fieldPath"] = f".{self.at}"
        return entry

    def _plain_sentence(self) -> str:
        """The message without values: for values that do not fit into one line, and the API server's fallback."""
        return _UNREADABLE.sub("<value>", self.message)

    def _message_expression(self, model: type[BaseModel] | None) -> str:
        """A CEL expression for the message. It uses `format`, because the API server estimates the cost of
        `string(number) + text` as if numbers had no bound."""
        template = _REFERENCE.sub("%s", self.message.replace("%", "%%"))
        values = ", ".join(_as_cel(model, match) for match in _REFERENCE.finditer(self.message))
        return f"{literal(template)}.format([{values}])"


class CheckedBy:
    """Adds rules to a scalar, list or map: `Annotated[str, Field(max_length=63), CheckedBy(DNS_LABEL)]`."""

    def __init__(self, *rules: Rule[Any]) -> None:
        self.rules = rules

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        json_schema.setdefault(VALIDATIONS, []).extend(rule.schema(None) for rule in self.rules)
        return json_schema

    def _check(self, value: T) -> T:
        check(self.rules, value)
        return value


def check(rules: tuple[Rule[Any], ...], value: Any) -> None:
    """Raises a ValidationError that lists every broken rule with its field."""
    broken = [rule for rule in rules if not rule.holds(value)]
    if broken:
        raise ValidationError.from_exception_data(type(value).__name__, [_details(rule, value) for rule in broken])


def literal(value: Any) -> str:
    """A Python value as a CEL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value.value if isinstance(value, Enum) else value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def matches(pattern: str, variable: str = "self") -> str:
    """A CEL expression that the whole text matches. Patterns use only syntax that RE2 and Python's `re` share."""
    return f"{variable}.matches({literal(f'^({pattern})$')})"


def _details(rule: Rule[Any], value: Any) -> InitErrorDetails:
    error = PydanticCustomError(RULE_ERROR, "{sentence}", {"sentence": rule.sentence(value)})
    return InitErrorDetails(type=error, loc=(rule.at,) if rule.at else (), input=value)


def _shown(value: Any, match: re.Match[str]) -> str:
    path, fallback = match.groups()
    if path != "self":
        for name in path.split("."):
            value = getattr(value, _attribute(type(value), name))
    return str(fallback if value is None else value.value if isinstance(value, Enum) else value)


def _as_cel(model: type[BaseModel] | None, match: re.Match[str]) -> str:
    path, fallback = match.groups()
    if path == "self":
        return "self"
    if model is None:
        raise TypeError(f"${path} names a field, so its rule belongs on a model")
    guards, expression, default, owner = [], "self", fallback, model
    for name in path.split("."):
        expression = f"{expression}.{name}"
        info = owner.model_fields[_attribute(owner, name)]
        if not info.is_required():
            guards.append(f"has({expression})")
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            owner = info.annotation
        elif fallback is None and not info.is_required() and info.default is not None:
            default = literal(info.default)
    if not guards or default is None:
        return expression
    return f"({' && '.join(guards)} ? {expression} : {default})"


def _attribute(model: type[BaseModel], wire_name: str) -> str:
    return _attributes(model)[wire_name]


def _attributes(model: type[BaseModel]) -> Mapping[str, str]:
    return {info.alias or name: name for name, info in model.model_fields.items()}
