"""Rules: what the API server refuses with CEL and the command line refuses without a cluster, written once.

A rule says the same thing three times side by side: as CEL for the API server, as a Python predicate for manifests read
without one, and as the sentence both show. Tests hold the two verdicts against each other.

In `cel` and `message` a `$` names a field by its name on the wire: `$minReplicas` is that field or, when it is absent,
the default of the model, so that a default is written in one place. `$tensorParallelSize:1` gives the fallback for a
field whose absence means something to be decided later. `$self` is the whole value.
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
"""Type of the pydantic error of a broken rule."""
_REFERENCE = re.compile(r"\$([A-Za-z]\w*(?:\.\w+)*)(?::(\w+))?")
_UNREADABLE = re.compile(r'"?\$[A-Za-z]\w*(?:\.\w+)*(?::\w+)?"?')


@dataclass(frozen=True)
class Rule(Generic[T]):
    """One thing that must hold for a value. (No slots: `Rule[X](…)` notes its type on the instance.)"""

    cel: str
    message: str
    """Value, reason and way out; the field's path is put in front by whoever shows it."""
    holds: Callable[[T], bool]
    """Never raises for a value that satisfies the types and bounds."""
    at: str | None = None
    """Wire name of the field the message is about, when the rule sits on its parent."""

    def sentence(self, value: Any) -> str:
        """The message with the value's own numbers and texts."""
        text = _REFERENCE.sub(lambda match: _shown(value, match), self.message)
        return text if text.isprintable() else self._plain_sentence()

    def schema(self, model: type[BaseModel] | None) -> dict[str, str]:
        """An entry of `x-kubernetes-validations`; `model` is what `$` names are looked up in."""
        entry = {"rule": _REFERENCE.sub(lambda match: _as_cel(model, match), self.cel)}
        entry["message"] = self._plain_sentence()
        if _REFERENCE.search(self.message):
            entry["messageExpression"] = self._message_expression(model)
        if self.at:
            entry["fieldPath"] = f".{self.at}"
        return entry

    def _plain_sentence(self) -> str:
        """For values that cannot be shown in one line; the API server falls back to it as well."""
        return _UNREADABLE.sub("<value>", self.message)

    def _message_expression(self, model: type[BaseModel] | None) -> str:
        """By `format`, since the API server prices `string(number) + text` as if a number were endless."""
        template = _REFERENCE.sub("%s", self.message.replace("%", "%%"))
        values = ", ".join(_as_cel(model, match) for match in _REFERENCE.finditer(self.message))
        return f"{literal(template)}.format([{values}])"


class Obeys:
    """Puts rules on a scalar, list or map: `Annotated[str, Field(max_length=63), Obeys(DNS_LABEL)]`."""

    def __init__(self, *rules: Rule[Any]) -> None:
        self.rules = rules

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        found.setdefault(VALIDATIONS, []).extend(rule.schema(None) for rule in self.rules)
        return found

    def _check(self, value: T) -> T:
        check(self.rules, value)
        return value


def check(rules: tuple[Rule[Any], ...], value: Any) -> None:
    """Raises a ValidationError that names every broken rule, each at its own field."""
    broken = [rule for rule in rules if not rule.holds(value)]
    if broken:
        raise ValidationError.from_exception_data(type(value).__name__, [_details(rule, value) for rule in broken])


def literal(value: Any) -> str:
    """A Python value as CEL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value.value if isinstance(value, Enum) else value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def matches(pattern: str, variable: str = "self") -> str:
    """CEL for: the whole text matches. Patterns keep to what RE2 and Python's `re` read alike."""
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
