"""Changes to one definition, made on its syntax tree.

A mutation names at most a callee, an attribute or a keyword of the definition, so it survives new names of locals, new
wording and another layout. It fits when what it names is there exactly once; `nth` chooses among several. In the
source of a new expression, `_` stands for what was there before.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prove.definitions import definition
from prove.fault import MisfitError

Mutation = Callable[[ast.stmt], None]
Function = ast.FunctionDef | ast.AsyncFunctionDef
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CodeChange:
    where: str
    """As `prove.definitions.definition` takes it."""
    mutations: tuple[Mutation, ...]

    def rewritten(self, root: Path) -> tuple[Path, str]:
        found = definition(self.where, root)
        before = ast.unparse(found.tree)
        for mutation in self.mutations:
            try:
                mutation(found.node)
            except MisfitError as error:
                raise MisfitError(f"`{self.where}`: {error}") from None
        after = ast.unparse(ast.fix_missing_locations(found.tree))
        if after == before:
            raise MisfitError(f"`{self.where}`: the change changes nothing")
        return found.path, after + "\n"


def at(where: str, *mutations: Mutation) -> CodeChange:
    return CodeChange(where, mutations)


def body(source: str) -> Mutation:
    """The function does only this."""

    def mutate(node: ast.stmt) -> None:
        _function(node).body[:] = ast.parse(source).body

    return mutate


def returns(source: str) -> Mutation:
    """The function, or property, gives this expression."""
    return body(f"return {source}")


def delegates(callee: str) -> Mutation:
    """The function calls another one with its own positional parameters, and gives what that gives."""

    def mutate(node: ast.stmt) -> None:
        function = _function(node)
        parameters = ", ".join(argument.arg for argument in function.args.args)
        function.body[:] = ast.parse(f"return {callee}({parameters})").body

    return mutate


def begins(source: str) -> Mutation:
    """The function does this first."""

    def mutate(node: ast.stmt) -> None:
        _function(node).body[:0] = ast.parse(source).body

    return mutate


def value(source: str) -> Mutation:
    """The constant has this value."""

    def mutate(node: ast.stmt) -> None:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            raise MisfitError("is no constant")
        node.value = _expression(source, node.value)

    return mutate


def entry(name: str, source: str | None, nth: int | None = None) -> Mutation:
    """The keyword argument, or the entry of a dictionary, is this expression; None leaves it out.

    A key may be a string, or a name such as `labels.SERVING`, which is given by its last part.
    """

    def mutate(node: ast.stmt) -> None:
        slots: list[tuple[ast.Call | ast.Dict, int]] = []
        for inner in _walk(node):
            if isinstance(inner, ast.Call):
                slots += [(inner, index) for index, keyword in enumerate(inner.keywords) if keyword.arg == name]
            elif isinstance(inner, ast.Dict):
                slots += [(inner, index) for index, key in enumerate(inner.keys) if key is not None and _is(key, name)]
        owner, index = _chosen(slots, f"entry `{name}`", nth)
        if isinstance(owner, ast.Call):
            if source is None:
                del owner.keywords[index]
            else:
                owner.keywords[index].value = _expression(source, owner.keywords[index].value)
        elif source is None:
            del owner.keys[index], owner.values[index]
        else:
            owner.values[index] = _expression(source, owner.values[index])

    return mutate


def element(name: str) -> Mutation:
    """The tuple, list or set loses the element of this name."""

    def mutate(node: ast.stmt) -> None:
        slots = [
            (inner, item)
            for inner in _walk(node)
            if isinstance(inner, ast.Tuple | ast.List | ast.Set)
            for item in inner.elts
            if _is(item, name) or (isinstance(item, ast.Starred) and _is(item.value, name))
        ]
        owner, item = _chosen(slots, f"element `{name}`", None)
        owner.elts.remove(item)

    return mutate


def without(name: str, nth: int | None = None) -> Mutation:
    """The simple statement that mentions this name is left out."""

    def mutate(node: ast.stmt) -> None:
        simple = [
            inner
            for inner in _walk(node)
            if isinstance(inner, ast.stmt) and not hasattr(inner, "body") and _mentions(inner, name)
        ]
        _put(node, _chosen(simple, f"statement with `{name}`", nth), ast.Pass())

    return mutate


def always(name: str, nth: int | None = None) -> Mutation:
    """The condition that mentions this name holds: a whole test, or one operand of `and` and `or`."""
    return _condition(name, nth, lambda _: ast.Constant(True))


def never(name: str, nth: int | None = None) -> Mutation:
    """The condition that mentions this name does not hold."""
    return _condition(name, nth, lambda _: ast.Constant(False))


def negated(name: str, nth: int | None = None) -> Mutation:
    """The condition that mentions this name is turned round."""
    return _condition(name, nth, lambda condition: ast.UnaryOp(ast.Not(), condition))


def unwrapped(callee: str, nth: int | None = None) -> Mutation:
    """The call of this name gives its first argument as it is."""

    def mutate(node: ast.stmt) -> None:
        call = _chosen([call for call in _calls(node, callee) if call.args], f"call of `{callee}`", nth)
        _put(node, call, call.args[0])

    return mutate


def calling(name: str, callee: str, nth: int | None = None) -> Mutation:
    """The call of one function is a call of another with the same arguments; `_` is the object of a method."""

    def mutate(node: ast.stmt) -> None:
        call = _chosen(list(_calls(node, name)), f"call of `{name}`", nth)
        call.func = _expression(callee, call.func.value if isinstance(call.func, ast.Attribute) else None)

    return mutate


def replaced(name: str, source: str, nth: int | None = None) -> Mutation:
    """What has this name is this expression: a call with its arguments, an attribute with its object, a string."""

    def mutate(node: ast.stmt) -> None:
        callees = {id(call.func) for call in _calls(node, name)}
        found = [
            inner
            for inner in _walk(node)
            if (isinstance(inner, ast.Call) and _is(inner.func, name))
            or (isinstance(inner, ast.expr) and _is(inner, name) and id(inner) not in callees)
        ]
        chosen = _chosen([inner for inner in found if _is_read(inner)], f"`{name}`", nth)
        _put(node, chosen, _expression(source, chosen))

    return mutate


def _condition(name: str, nth: int | None, new: Callable[[ast.expr], ast.expr]) -> Mutation:
    def mutate(node: ast.stmt) -> None:
        found = [condition for condition in _conditions(node) if _mentions(condition, name)]
        chosen = _chosen(found, f"condition on `{name}`", nth)
        _put(node, chosen, new(chosen))

    return mutate


def _conditions(node: ast.AST, boolean: bool = False) -> Iterator[ast.expr]:
    """Outermost comparisons and whatever else stands where only its truth matters, without `and`, `or` and `not`."""
    operator = isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
    if isinstance(node, ast.expr) and (isinstance(node, ast.Compare) or (boolean and not operator)):
        yield node
        return
    for name, child in ast.iter_fields(node):
        truth = operator or name in ("test", "ifs")
        for each in child if isinstance(child, list) else [child]:
            if isinstance(each, ast.AST):
                yield from _conditions(each, truth)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """In the order of the source."""
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def _function(node: ast.stmt) -> Function:
    if not isinstance(node, Function):
        raise MisfitError("is no function")
    return node


def _calls(node: ast.AST, callee: str) -> Iterator[ast.Call]:
    return (inner for inner in _walk(node) if isinstance(inner, ast.Call) and _is(inner.func, callee))


def _is(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Name(id=own) | ast.Attribute(attr=own):
            return own == name
        case ast.Constant(value=own):
            return bool(own == name)
    return False


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(
        (isinstance(inner, ast.expr) and _is(inner, name)) or (isinstance(inner, ast.keyword) and inner.arg == name)
        for inner in _walk(node)
    )


def _chosen(found: Sequence[T], what: str, nth: int | None) -> T:
    """The only one, or the nth from 1 on in the order of the source."""
    if nth is None and len(found) > 1:
        raise MisfitError(f"{what} is there {len(found)} times; say which")
    if len(found) < (nth or 1):
        raise MisfitError(f"{what} is there {len(found)} times")
    return found[(nth or 1) - 1]


def _put(root: ast.AST, old: ast.AST, new: ast.AST) -> None:
    """In the place of a node, found by identity."""
    for parent in _walk(root):
        for name, child in ast.iter_fields(parent):
            if child is old:
                setattr(parent, name, new)
                return
            if isinstance(child, list) and any(each is old for each in child):
                child[:] = [new if each is old else each for each in child]
                return


def _expression(source: str, before: ast.expr | None = None) -> ast.expr:
    """`before` takes the place of each `_`."""
    wrapped = ast.parse(source, mode="eval")
    for inner in list(_walk(wrapped)):
        if before is not None and isinstance(inner, ast.Name) and inner.id == "_":
            _put(wrapped, inner, before)
    return wrapped.body
