"""A space that is given anew when a search is restored: what its trials were given as objects is exchanged for the new ones."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from skate.tune.space.domain import Categorical, Domain
from skate.tune.space.variants import Path, assigned, at, copied, is_grid

_PLAIN = (bool, int, float, str, bytes, type(None))


def with_objects_of(config: dict[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with each object of an old space in it exchanged for the one that stands in its place in a new space.

    Args:
        config: of a trial of the old space.
        old, new: the spaces; where they differ in shape the configuration stays as it is.
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
    """Where the two have values, choices or grids, with what they have there."""
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
    """What stands for a value in the new space; None if nothing does."""
    old, new = _choices(before), _choices(after)
    if old is None or new is None:
        return None if isinstance(before, Domain) or isinstance(after, Domain) else after
    for one, other in zip(old, new, strict=False):
        if _same(one, value):
            return other
    return None


def _same(one: Any, other: Any) -> bool:
    """Return whether two objects, each read from a file, were one."""
    if one is other:
        return True
    import cloudpickle  # restored searches only

    try:
        return bool(cloudpickle.dumps(one) == cloudpickle.dumps(other))
    except (pickle.PicklingError, TypeError):
        return False
