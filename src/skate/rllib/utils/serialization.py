"""Spaces and classes as plain values, which JSON can hold: Ray's form, so that either side reads the other's."""

from __future__ import annotations

import base64
import io
import pkgutil
import zlib
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from skate.rllib.env.spaces import Repeated, Simplex
from skate.rllib.utils.numpy import convert_numpy_to_python_primitives

__all__ = [
    "convert_numpy_to_python_primitives",
    "deserialize_type",
    "gym_space_from_dict",
    "gym_space_to_dict",
    "serialize_type",
    "space_from_dict",
    "space_to_dict",
]


def gym_space_to_dict(space: gym.Space[Any] | None) -> dict[str, Any] | None:
    """Return a space as a dict of plain values.

    Args:
        space: A space of gymnasium, or None.

    Raises:
        ValueError: There is no such form of this kind of space.
    """
    if space is None:
        return None
    if isinstance(space, spaces.Box):
        low, high = _packed(space.low), _packed(space.high)
        return {"space": "box", "low": low, "high": high, "shape": space.shape, "dtype": space.dtype.str}
    if isinstance(space, spaces.Discrete):
        return {"space": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiBinary):
        return {"space": "multi-binary", "n": space.n}
    if isinstance(space, spaces.MultiDiscrete):
        return {"space": "multi-discrete", "nvec": _packed(space.nvec), "dtype": np.dtype(space.dtype).str}
    if isinstance(space, spaces.Tuple):
        return {"space": "tuple", "spaces": [gym_space_to_dict(each) for each in space.spaces]}
    if isinstance(space, spaces.Dict):
        return {
            "space": "dict",
            "spaces": {key: gym_space_to_dict(each) for key, each in space.spaces.items()},
        }
    if isinstance(space, spaces.Text):
        sizes = {"min_length": space.min_length, "max_length": space.max_length}
        return {"space": "text", **sizes, "charset": space.characters}
    if isinstance(space, Simplex):
        shape, dtype = space.shape, np.dtype(space.dtype).str
        return {"space": "simplex", "shape": shape, "concentration": space.concentration, "dtype": dtype}
    if isinstance(space, Repeated):
        child = gym_space_to_dict(space.child_space)
        return {"space": "repeated", "child_space": child, "max_len": space.max_len}
    raise ValueError(
        f"{space} has no form as a dict; there is one of Box, Discrete, MultiBinary, MultiDiscrete, Tuple, Dict, Text, "
        "Simplex and Repeated"
    )


def gym_space_from_dict(d: dict[str, Any] | None) -> gym.Space[Any] | None:
    """Return the space that `gym_space_to_dict` made a dict of.

    Args:
        d: The dict, or None.

    Raises:
        ValueError: The dict names a kind of space that is not known.
    """
    if d is None:
        return None
    kind, rest = d["space"], {name: value for name, value in d.items() if name != "space"}
    if "dtype" in rest:
        rest["dtype"] = np.dtype(rest["dtype"])
    for name in ("low", "high", "nvec"):
        if name in rest:
            rest[name] = _unpacked(rest[name])
    if "shape" in rest:
        rest["shape"] = tuple(rest["shape"])
    if kind == "tuple":
        return spaces.Tuple([_known(each) for each in rest["spaces"]])
    if kind == "repeated":
        return Repeated(_known(rest["child_space"]), rest["max_len"])
    if kind == "dict":
        return spaces.Dict([(key, _known(each)) for key, each in rest["spaces"].items()])
    kinds: dict[str, Any] = {
        "box": spaces.Box,
        "discrete": spaces.Discrete,
        "multi-binary": spaces.MultiBinary,
        "multi-discrete": spaces.MultiDiscrete,
        "text": spaces.Text,
        "simplex": Simplex,
    }
    if kind not in kinds:
        raise ValueError(
            f"space {kind!r} is not known; there are {sorted([*kinds, 'dict', 'repeated', 'tuple'])}"
        )
    made: gym.Space[Any] = kinds[kind](**rest)
    return made


def _known(d: dict[str, Any]) -> gym.Space[Any]:
    space = gym_space_from_dict(d)
    if space is None:
        raise ValueError("a part of a space is None")
    return space


def space_to_dict(space: gym.Space[Any]) -> dict[str, Any]:
    """Return a space, and the one that it was made of, as a dict; see `gym_space_to_dict`."""
    made: dict[str, Any] = {"space": gym_space_to_dict(space)}
    original = getattr(space, "original_space", None)
    return made if original is None else {**made, "original_space": space_to_dict(original)}


def space_from_dict(d: dict[str, Any]) -> gym.Space[Any]:
    """Return the space that `space_to_dict` made a dict of."""
    space = _known(d["space"])
    if "original_space" in d:
        space.original_space = space_from_dict(d["original_space"])  # type: ignore[attr-defined]
    return space


def serialize_type(type_: type | str) -> str:
    """Return the path of a class, with Ray's name for one of Skate's.

    Args:
        type_: The class, or its path, which is returned.
    """
    if isinstance(type_, str):
        return type_
    module = type_.__module__
    if module.startswith("skate."):
        module = f"ray.{module.removeprefix('skate.')}"
    return f"{module}.{type_.__qualname__}"


def deserialize_type(module: str | type, error: bool = False) -> Any:
    """Return the class of a path; what leads to no class, and a class, is returned as it is.

    Args:
        module: The path, ``"package.module.Class"``.
        error: True to raise if there is no such class.

    Raises:
        ValueError: There is no such class.
    """
    if not isinstance(module, str):
        return module
    home, _, name = module.rpartition(".")
    # Skate's own class, also where another Ray is installed.
    home = f"skate.{home.removeprefix('ray.')}" if home.startswith("ray.") else home
    try:
        return pkgutil.resolve_name(f"{home}:{name}")
    except (ImportError, AttributeError, ValueError) as failure:
        if error:
            raise ValueError(f"there is no class {module!r}: {failure}") from failure
        return module


def _packed(array: Any) -> str:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return base64.b64encode(zlib.compress(file.getvalue())).decode("ascii")


def _unpacked(text: str) -> np.ndarray:
    array: np.ndarray = np.load(io.BytesIO(zlib.decompress(base64.b64decode(text))), allow_pickle=False)
    return array
