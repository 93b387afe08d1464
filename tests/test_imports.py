"""Benchmarks and examples import only names that exist, inside of functions too: nothing else runs all of them."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Where a name of a top package lives.
PACKAGES = {
    "benchmarks": ROOT / "benchmarks",
    "examples": ROOT / "examples",
    "tests": ROOT / "tests",
    "skate": ROOT / "src" / "skate",
}
FILES = sorted(path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))


def source_of(module: str) -> Path | None:
    """Return the file of a module, a folder for a package without a file of its own, None if there is neither."""
    top, *inner = module.split(".")
    place = PACKAGES[top].joinpath(*inner)
    for each in (place / "__init__.py", place.with_suffix(".py"), place):
        if each.exists():
            return each
    return None


def bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements at the top of a module bind."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
        else:
            yield from (
                each.id
                for each in ast.walk(statement)
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            )
            for field in ("body", "orelse", "finalbody"):
                yield from bound_names(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from bound_names(handler.body)


@functools.cache
def names_of(source: Path) -> frozenset[str]:
    """Return the names that a module binds at its top, and all its words if it makes names on demand."""
    if source.is_dir():
        return frozenset()
    code = source.read_text()
    names = frozenset(bound_names(ast.parse(code).body))
    return names.union(re.findall(r"\w+", code)) if "__getattr__" in names else names


def imports(module: str, name: str | None) -> bool:
    """Return whether a module can be imported and has a name."""
    try:
        return hasattr(importlib.import_module(module), name or "__name__")
    except ImportError:
        return False


def missing_imports(code: str) -> list[str]:
    """Return the imports of the project's own names in source code that lead nowhere."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            wanted = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in wanted:
            if module.split(".")[0] not in PACKAGES:
                continue
            source = source_of(module)
            if source is None:
                # Ray's import paths that Skate answers have no file.
                if not (module.startswith("skate.") and imports(module, name)):
                    found.append(module)
            elif name is not None and name not in names_of(source) and not source_of(f"{module}.{name}"):
                found.append(f"{module}.{name}")
    return found


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_imported_names_exist(path: Path) -> None:
    assert missing_imports(path.read_text()) == []


def test_a_moved_module_and_a_removed_name_are_found() -> None:
    code = """
def lazily():
    from examples.main_job import language_model, word_salad
    from examples.texts import corpus
    import benchmarks.nowhere
    from skate.data import Dataset
    from skate.train.data_parallel_trainer import DataParallelTrainer
    import skate.nowhere
"""
    assert missing_imports(code) == [
        "examples.main_job.word_salad",
        "examples.texts",
        "benchmarks.nowhere",
        "skate.nowhere",
    ]
