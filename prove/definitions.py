"""Finds functions, methods, classes, constants and tests by name, so that a file that moves breaks no fault."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from prove.fault import MisfitError

SOURCE = "operator/forebay"
TESTS = ("tests", "e2e")
_DEFINES = re.compile(r"^[ \t]*(?:(?:async def|def|class) (\w+)|(\w+)(?=:| =))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    path: Path
    tree: ast.Module
    """Of the whole file; a change to `node` is a change to it."""
    node: ast.stmt
    name: str
    """With the names of the classes it is in: `Budget.grant`."""


def definition(where: str, root: Path) -> Found:
    """`name`, `Class.name`, or `module:name` where several modules define the name. Raises MisfitError."""
    module, _, name = where.rpartition(":")
    found = [
        found
        for found in _named(_last(name), root, (SOURCE,))
        if found.name == name and module in ("", _module(found.path))
    ]
    return _only(found, where, root)


def id_of_test(guard: str, root: Path) -> str:
    """pytest's id of `test_name` or `test_file::test_name`. Raises MisfitError."""
    stem, _, name = guard.rpartition("::")
    found = [
        found
        for found in _named(name, root, TESTS)
        if found.name.rpartition(".")[2] == name
        and found.path.name.startswith("test_")
        and stem in ("", found.path.stem)
    ]
    only = _only(found, guard, root)
    return "::".join((only.path.relative_to(root).as_posix(), *only.name.split(".")))


def file_of_tests(stem: str, root: Path) -> str:
    """The path of the test file of this name below `root`. Raises MisfitError."""
    paths = [
        path.relative_to(root).as_posix() for folder in TESTS for path in root.joinpath(folder).rglob(f"{stem}.py")
    ]
    if len(paths) != 1:
        raise MisfitError(f"{stem}.py is there {len(paths)} times instead of once: {', '.join(paths)}")
    return paths[0]


def _only(found: Sequence[Found], asked: str, root: Path) -> Found:
    if not found:
        raise MisfitError(f"`{asked}` is not defined; plant the fault where its claim is kept now")
    if len(found) > 1:
        paths = ", ".join(sorted(each.path.relative_to(root).as_posix() for each in found))
        raise MisfitError(f"`{asked}` is defined {len(found)} times; say in which module: {paths}")
    return found[0]


def _named(name: str, root: Path, folders: tuple[str, ...]) -> Iterator[Found]:
    for path in _files_by_name(root, folders).get(name, ()):
        tree = ast.parse(path.read_text())
        yield from (Found(path, tree, node, full) for full, node in _definitions(tree, "") if _last(full) == name)


@lru_cache(maxsize=4)
def _files_by_name(root: Path, folders: tuple[str, ...]) -> dict[str, list[Path]]:
    """The files that seem to define each name, so that few have to be parsed. Planting a fault changes no names."""
    files: dict[str, list[Path]] = {}
    for path in sorted(path for folder in folders for path in root.joinpath(folder).rglob("*.py")):
        for name in {found[1] or found[2] for found in _DEFINES.finditer(path.read_text())}:
            files.setdefault(name, []).append(path)
    return files


def _definitions(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in parent.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, node
            case ast.ClassDef(name=name):
                yield prefix + name, node
                yield from _definitions(node, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name, node


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _module(path: Path) -> str:
    """The last part of a module's name; a package is called by its folder."""
    return path.parent.name if path.stem == "__init__" else path.stem
