"""from_config: objects that are made from a class, its name, a dict, a JSON or YAML text, or a file of either."""

from __future__ import annotations

import copy
import importlib
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

from skate.rllib.algorithms.algorithm_config import NotProvided as NotProvided


def from_config(cls: Any, config: Any = None, **kwargs: Any) -> Any:
    """Make an object.

    Args:
        cls: The class that a name is searched beside, and made if `config` names none; or, alone, the config.
        config: An object of `cls`, which is returned; a class or another callable; a key of the `__type_registry__` of
            `cls`; a dotted path; the name of a file that ends with .json, .yaml or .yml; JSON or YAML text; or a dict of
            arguments, whose key "type" is any of these, and whose "_args" are positional.
        **kwargs: Arguments that replace those of `config`.

    Returns:
        The object; None for an abstract class.

    Raises:
        ValueError: a name leads to nothing.
        TypeError: there is no class.
    """
    if config is None and isinstance(cls, dict | str):
        cls, config = None, cls
    elif isinstance(cls, type) and isinstance(config, cls):
        return config
    if isinstance(config, dict):
        arguments = {**_copied(config), **kwargs}
        kind = arguments.pop("type", None)
    else:
        arguments = dict(kwargs)
        kind = arguments.pop("type", None) if config is None else config
    given = arguments.pop("_args", ())
    positional = given if isinstance(given, list | tuple) else (given,)
    maker = _default_maker(cls, positional) if kind is None else _registered(cls, kind)
    if maker is None:
        if kind is False:
            return False
        if isinstance(kind, str):
            read = _read(kind)
            if read is not None:
                return from_config(cls, {**read, **arguments}, _args=positional)
            maker = _named(cls, kind)
        elif callable(kind):
            maker = kind
    if not maker:
        raise TypeError(
            f"from_config({config!r}): give a class, its dotted path, or a dict with one as its 'type'"
        )
    try:
        return maker(*positional, **arguments)
    except TypeError as error:
        if error.args and str(error.args[0]).startswith("Can't instantiate abstract class"):
            return None
        raise


def from_file(cls: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Make an object from the config in a file.

    Args:
        cls: As of :func:`from_config`.
        filename: A file of JSON, or of YAML if its name ends with .yaml or .yml.
        *args: Positional arguments.
        **kwargs: Further arguments.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return from_config(cls, {**_of_file(filename), "_args": list(args)}, **kwargs)


def _copied(config: dict[str, Any]) -> dict[str, Any]:
    try:
        return copy.deepcopy(config)
    except Exception:  # values that cannot be copied are shared
        return dict(config)


def _default_maker(cls: Any, positional: Any) -> Any:
    made = getattr(cls, "__default_constructor__", None)
    inherited = getattr(cls.__bases__[0], "__default_constructor__", None) if isinstance(cls, type) else None
    return made if made is not None and not positional and made is not inherited else cls


def _registered(cls: Any, kind: Any) -> Any:
    known = getattr(cls, "__type_registry__", None)
    if not isinstance(known, dict):
        return None
    keys = (kind, re.sub(r"[\W_]", "", kind.lower())) if isinstance(kind, str) else (kind,)
    return next((known[key] for key in keys if key in known), None)


def _of_file(filename: str) -> dict[str, Any]:
    path = pathlib.Path(filename)
    if not path.is_file():
        raise FileNotFoundError(f"from_config: there is no file {filename!r} in {pathlib.Path.cwd()}")
    text = path.read_text()
    found: dict[str, Any] = _yaml(text) if path.suffix in (".yaml", ".yml") else json.loads(text)
    return found


def _yaml(text: str) -> Any:
    import yaml  # most programs give no text

    return yaml.safe_load(text)


def _read(text: str) -> dict[str, Any] | None:
    """Return the dict that a file name or a text stands for; None for a name."""
    if text.endswith((".json", ".yaml", ".yml")):
        return _of_file(text)
    read = _yaml(text) if any(mark in text for mark in ":{") else None  # JSON is YAML
    return read if isinstance(read, dict) else None


def _named(cls: Any, name: str) -> Callable[..., Any]:
    places = []
    if "." in name:
        places.append(name.rpartition(".")[0])
    if cls is not None:
        places += [cls.__module__, cls.__module__.rpartition(".")[0]]
    for place in filter(None, places):
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(place), name.rpartition(".")[2])
        except (ImportError, AttributeError):
            continue
        return found
    beside = f", a class beside {cls.__name__} in {cls.__module__!r}" if isinstance(cls, type) else ""
    raise ValueError(
        f"from_config: {name!r} leads to no class; give a dotted path such as 'my.module.MyClass'{beside}, "
        "or the name of a .json or .yaml file"
    )
