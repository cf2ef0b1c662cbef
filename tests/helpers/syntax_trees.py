"""The syntax trees of the four packages, for rules that every file keeps."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.helpers.checkout import ROOT

FILES = sorted(
    path for package in ("protocols", "agents", "graphs", "simulations") for path in (ROOT / package).rglob("*.py")
)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def layer(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["kernelswarm", *parts[: -1 if parts[-1] == "__init__" else None]])


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=name(path))))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported name in full, with its line: `from a.b import c` gives a.b.c."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@functools.cache
def calls(path: Path) -> list[tuple[ast.Call, str]]:
    return [(node, ast.unparse(node.func)) for node in nodes(path) if isinstance(node, ast.Call)]


def forget() -> None:
    """Drop the trees that are kept."""
    calls.cache_clear()
    nodes.cache_clear()


def importers(*modules: str) -> set[str]:
    """The files that import one of the modules or something inside it."""
    return {
        name(path)
        for path in FILES
        for _, full in imported(path)
        if any(full == module or full.startswith(f"{module}.") for module in modules)
    }


def in_every_file(files: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Have a test of one file look at many, and name those that fail: a test of each costs more."""
    given = list(files)
    assert given

    def decorated(test: Callable[[Path], None]) -> Callable[[], None]:
        def of_all() -> None:
            failed = []
            for path in given:
                try:
                    test(path)
                except AssertionError as failure:
                    failed.append(f"{name(path)}: {failure}")
            assert not failed, "\n".join(failed)

        of_all.__name__ = test.__name__
        of_all.__doc__ = test.__doc__
        return of_all

    return decorated
