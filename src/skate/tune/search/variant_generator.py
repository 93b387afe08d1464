"""Variants, under the names of `ray.tune.search.variant_generator`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skate.tune.space.domain import Categorical, Domain
from skate.tune.space.functions import grid_search
from skate.tune.space.variants import (
    Path,
    RecursiveDependencyError,
    assigned,
    format_vars,
    generate_variants,
    open_leaves,
)

__all__ = [
    "RecursiveDependencyError",
    "assign_value",
    "format_vars",
    "generate_variants",
    "grid_search",
    "parse_spec_vars",
]


def assign_value(spec: dict[str, Any], path: Path, value: Any) -> None:
    """Set a value in a nested dict, at a path of names and positions."""
    assigned(spec, tuple(path), value)


def parse_spec_vars(
    spec: dict[str, Any],
) -> tuple[list[tuple[Path, Any]], list[tuple[Path, Domain]], list[tuple[Path, Domain]]]:
    """Return the leaves of a nested space with their paths: decided values, domains, and grids."""
    waiting = dict(open_leaves(spec))
    domains: list[tuple[Path, Domain]] = []
    grids: list[tuple[Path, Domain]] = []
    for path, leaf in waiting.items():
        found = leaf if isinstance(leaf, Domain) else Categorical(list(leaf["grid_search"])).grid()
        (grids if found.is_grid() else domains).append((path, found))
    decided = [(path, value) for path, value in _leaves(spec, ()) if not _within(path, waiting)]
    return decided, domains, sorted(grids, key=lambda each: each[0])


def _leaves(space: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(space, dict) and space:
        for name, value in space.items():
            yield from _leaves(value, (*path, name))
    elif isinstance(space, list | tuple) and space:
        for index, value in enumerate(space):
            yield from _leaves(value, (*path, index))
    else:
        yield path, space


def _within(path: Path, waiting: Mapping[Path, Any]) -> bool:
    return any(path[:length] in waiting for length in range(len(path) + 1))
