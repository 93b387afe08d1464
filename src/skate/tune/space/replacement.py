"""A new space for a restored search: objects in the trials' configurations are replaced by the new ones."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from skate.tune.space.domain import Categorical, Domain
from skate.tune.space.variants import Path, assigned, at, copied, is_grid

_PLAIN = (bool, int, float, str, bytes, type(None))


def with_objects_of(config: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each object of an old space in a configuration by the one at the same position in a new space.

    Args:
        config: the configuration of a trial of the old space.
        old, new: the spaces; where their shapes differ, the configuration stays unchanged.
    """
    found = copied(config)
    for path, before, after in _places(old, new):
        try:
            value = at(found, path)
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(value, _PLAIN):
            continue
        exchanged = _counterpart(value, before, after)
        if exchanged is not None:
            found = assigned(found, path, exchanged)
    return dict(found)


def _places(old: Any, new: Any, path: Path = ()) -> list[tuple[Path, Any, Any]]:
    """Yield the positions at which both have values, choices or grids, with those of each."""
    if isinstance(old, Mapping) and isinstance(new, Mapping) and not is_grid(old):
        return [
            place for name in old if name in new for place in _places(old[name], new[name], (*path, name))
        ]
    if type(old) in (list, tuple) and type(old) is type(new) and len(old) == len(new):
        return [
            place
            for index, (one, other) in enumerate(zip(old, new, strict=True))
            for place in _places(one, other, (*path, index))
        ]
    return [(path, old, new)]


def _choices(leaf: Any) -> list[Any] | None:
    if isinstance(leaf, Categorical):
        return list(leaf.categories)
    return list(leaf["grid_search"]) if is_grid(leaf) else None


def _counterpart(value: Any, before: Any, after: Any) -> Any:
    """Return the counterpart of a value in the new space, or None."""
    old, new = _choices(before), _choices(after)
    if old is None or new is None:
        return None if isinstance(before, Domain) or isinstance(after, Domain) else after
    for one, other in zip(old, new, strict=False):
        if _same(one, value):
            return other
    return None


def _same(one: Any, other: Any) -> bool:
    """Return True if two objects, each read from a file, were the same object."""
    if one is other:
        return True
    from skate import cloudpickle  # only restored searches need it

    try:
        return bool(cloudpickle.dumps(one) == cloudpickle.dumps(other))
    except (pickle.PicklingError, TypeError):
        return False
