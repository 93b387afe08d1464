"""The variants of a search space: grids are combined, domains drawn from, functions called once their inputs are
known.
"""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from skate.tune.space.domain import Domain, Function

Path = tuple[Any, ...]


class RecursiveDependencyError(Exception):
    """Functions of a search space depend on each other's values."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


class Unresolved(Exception):
    """A function has requested a value that is not drawn yet."""


def is_grid(value: Any) -> bool:
    """True if a value comes from `grid_search`.

    Raises:
        ValueError: its values are not a list.
    """
    if not (isinstance(value, Mapping) and len(value) == 1 and "grid_search" in value):
        return False
    if not isinstance(value["grid_search"], (list, tuple)):
        found = value["grid_search"]
        raise ValueError(f"grid_search takes a list of values, got {type(found).__name__}: {found!r:.80}")
    return True


def is_text(value: Any) -> bool:
    """Return True if a value is an expression as text, such as `{"eval": "spec.config.a * 2"}`."""
    return isinstance(value, Mapping) and len(value) == 1 and isinstance(value.get("eval"), str)


def _of_text(text: str) -> Function:
    """Compile an expression given as text to a function of the configuration."""

    def value(spec: Any) -> Any:
        import numpy as np  # expressions may use it, and few spaces have any

        return eval(text, {"math": math, "np": np, "random": random}, {"spec": spec})

    return Function(value)


def open_leaves(space: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the undecided leaves of a nested space with their paths, in order of appearance."""
    if isinstance(space, Domain) or is_grid(space):
        yield path, space
    elif is_text(space):
        yield path, _of_text(space["eval"])
    elif isinstance(space, Mapping):
        for name, value in space.items():
            yield from open_leaves(value, (*path, name))
    elif type(space) in (list, tuple):
        for index, value in enumerate(space):
            yield from open_leaves(value, (*path, index))


def has_open(space: Any) -> bool:
    """True if any value is undecided."""
    return any(True for _ in open_leaves(space))


def grids_of(space: Any) -> list[Path]:
    """Return the paths of all grids."""
    return [path for path, leaf in open_leaves(space) if not isinstance(leaf, Domain) or leaf.is_grid()]


def count(space: Any) -> int:
    """Return the number of trials in one pass over the grids, as far as it is known before any draw."""
    found = 1
    for _, leaf in open_leaves(space):
        values = _grid_values(leaf)
        if values is not None:
            found *= sum(count(value) for value in values)
    return found


def _grid_values(leaf: Any) -> list[Any] | None:
    if not isinstance(leaf, Domain):
        return list(leaf["grid_search"])
    return list(getattr(leaf, "categories", ())) if leaf.is_grid() else None


def copied(space: Any) -> Any:
    """Copy the containers, not their contents."""
    if isinstance(space, Domain):
        return space
    if isinstance(space, dict):
        return {name: copied(value) for name, value in space.items()}
    if type(space) in (list, tuple):
        return type(space)(copied(value) for value in space)
    return space


def assigned(space: Any, path: Path, value: Any) -> Any:
    """Set the value at a path; containers that cannot be changed in place are rebuilt and returned."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(space, tuple):
        return (*space[:first], assigned(space[first], rest, value), *space[first + 1 :])
    space[first] = assigned(space[first], rest, value)
    return space


def at(space: Any, path: Path) -> Any:
    """Return the value at a path."""
    for part in path:
        space = space[part]
    return space


class Guard(dict[Any, Any]):
    """The configuration passed to a `sample_from` function: `config["a"]`, and `spec.config.a`."""

    def __init__(self, config: Mapping[Any, Any]) -> None:
        super().__init__(config)
        self.__dict__["_given"] = config

    def __getitem__(self, name: Any) -> Any:
        if name == "config" and not dict.__contains__(self, name):
            return self
        return _decided(dict.__getitem__(self, name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            known = ", ".join(map(str, self)) or "none"
            raise AttributeError(f"the configuration has no {name!r}; it has: {known}") from None

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of a name, or `default`."""
        return self[name] if dict.__contains__(self, name) else default


def _decided(value: Any) -> Any:
    if isinstance(value, Domain) or is_grid(value):
        raise Unresolved
    return Guard(value) if isinstance(value, dict) else value


def generate_variants(
    unresolved_spec: dict[str, Any], constant_grid_search: bool = False, random_state: Any = None
) -> Iterator[tuple[dict[Path, Any], dict[str, Any]]]:
    """Yield the trials of one pass over a space: the decided values by path, and the configuration.

    Args:
        unresolved_spec: nested dicts and lists with domains and grids in them.
        constant_grid_search: draw once for all points of the grids, instead of at each point.
        random_state: a seed or a numpy generator; None for numpy's global one.

    Raises:
        RecursiveDependencyError: functions depend on each other's values.
    """
    leaves = list(open_leaves(unresolved_spec))
    grids = [(path, values) for path, leaf in leaves if (values := _grid_values(leaf)) is not None]
    domains = {path: leaf for path, leaf in leaves if _grid_values(leaf) is None}
    held = _drawn(copied(unresolved_spec), domains, random_state) if constant_grid_search else None
    # The first grid varies fastest.
    for point in itertools.product(*(values for _, values in reversed(grids))):
        chosen = dict(zip((path for path, _ in grids), reversed(point), strict=True))
        config = copied(held[1] if held else unresolved_spec)
        for path, value in chosen.items():
            config = assigned(config, path, copied(value))
        found = {} if held is None else dict(held[0])
        if held is None:
            found, config = _drawn(config, domains, random_state)
        found.update(chosen)
        if not has_open(config):
            yield found, config
            continue
        for deeper, whole in generate_variants(config, constant_grid_search, random_state):
            yield {**found, **deeper}, whole


def _drawn(config: Any, domains: Mapping[Path, Domain], random_state: Any) -> tuple[dict[Path, Any], Any]:
    found: dict[Path, Any] = {}
    waiting = dict(domains)
    while waiting:
        progress = False
        for path, domain in list(waiting.items()):
            try:
                value = domain.sample(Guard(config), random_state=random_state)
            except Unresolved:
                continue
            except Exception as error:  # the user's function may raise anything
                name = "/".join(map(str, path))
                raise ValueError(
                    f"cannot draw a value for {name!r} from {type(domain).__name__} {domain.domain_str}: "
                    f"{type(error).__name__}: {error}"
                ) from error
            del waiting[path]
            found[path] = value
            config = assigned(config, path, copied(value))
            progress = True
        if not progress:
            # The value that a function waits for may be nested in a drawn value or in a grid, and is then
            # decided one level deeper.
            names = ", ".join("/".join(map(str, path)) for path in waiting)
            if (
                found
                and all(domain.is_function() for domain in waiting.values())
                and _more_open(config, waiting)
            ):
                return found, config
            first = next("/".join(map(str, path)) for path in waiting)
            raise RecursiveDependencyError(
                f"`{first}` recursively depends on itself: the values of {names} depend on each other; break the cycle"
            )
    return found, config


def _more_open(config: Any, waiting: Mapping[Path, Domain]) -> bool:
    return any(path not in waiting for path, _ in open_leaves(config))


def resolved_names(found: Mapping[Path, Any]) -> dict[str, Any]:
    """Return the decided values, with nested names joined by slashes."""
    return {"/".join(map(str, path)): value for path, value in found.items()}


_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]+")


def format_vars(resolved_vars: Mapping[Path, Any]) -> str:
    """Format the decided values as a short text for a folder's name, such as "lr=0.0100,layers=2"."""
    found = []
    for path, value in sorted(resolved_vars.items(), key=lambda each: tuple(map(str, each[0]))):
        names = [str(part) for part in path if part != "config"]
        if not names:
            continue
        found.append(f"{_clean(names[-1])}={_clean(value)}")
    return ",".join(found)


def _clean(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else _UNSAFE.sub("_", str(value)).strip("_")
