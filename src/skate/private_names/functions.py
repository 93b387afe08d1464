"""Functions from `ray._common.utils` and `ray._private.utils`: ids as text, imports by name, loops."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pathlib
import random
import re
import string
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import psutil

import skate
from skate import procfs

_background: set[asyncio.Task[Any]] = set()
_BUNDLE = re.compile("(.+)_group_(\\d+)_([0-9a-zA-Z]+)")
_GROUP = re.compile("(.+)_group_([0-9a-zA-Z]+)")


def binary_to_hex(identifier: bytes) -> str:
    """Bytes as hexadecimal digits."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str) -> bytes:
    """Hexadecimal digits as bytes."""
    return bytes.fromhex(hex_identifier)


def decode(byte_str: Any, allow_none: bool = False, encode_type: str = "utf-8") -> str:
    """Bytes as text; None as an empty one if that is allowed. Raises ValueError for what is no bytes."""
    if byte_str is None and allow_none:
        return ""
    if not isinstance(byte_str, bytes):
        raise ValueError(f"The argument {byte_str} must be a bytes object.")
    return byte_str.decode(encode_type)


def ensure_str(s: Any, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Bytes or text as text."""
    if isinstance(s, str):
        return s
    if not isinstance(s, bytes):
        raise TypeError(f"expected bytes or text, got {type(s).__name__}")
    return s.decode(encoding, errors)


def env_bool(key: str, default: bool) -> bool:
    """An environment variable as a truth value: "true" and "1" are true."""
    text = os.environ.get(key)
    return default if text is None else text.lower() in ("true", "1")


def env_integer(key: str, default: int) -> int:
    """An environment variable as a whole number; the default if it is none."""
    text = os.environ.get(key, "")
    return int(text) if re.fullmatch("-?[0-9]+", text) else default


def env_float(key: str, default: float) -> float:
    """An environment variable as a number; the default if it is none."""
    try:
        return float(os.environ.get(key, ""))
    except ValueError:
        return default


def get_function_args(callable: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters."""
    return list(inspect.signature(callable).parameters)


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop that runs here; a new one, set for this thread, if there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop


def run_background_task(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task of the running event loop that nobody need hold."""
    task = asyncio.get_event_loop().create_task(coroutine)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


def import_attr(full_path: str, *, reload_module: bool = False) -> Any:
    """Return the object that "module.name" or "module:name" names; names may have dots behind a colon."""
    return import_module_and_attr(full_path, reload_module=reload_module)[1]


def import_module_and_attr(full_path: str, *, reload_module: bool = False) -> tuple[Any, Any]:
    """The module and the attribute of such a path. Raises ValueError if there is more than one colon."""
    if full_path is None:
        raise TypeError("import path cannot be None")
    if full_path.count(":") > 1:
        raise ValueError(f'Got invalid import path "{full_path}". An import path may have at most one colon.')
    where, _, name = full_path.partition(":") if ":" in full_path else full_path.rpartition(".")
    module = importlib.import_module(where)
    if reload_module:
        importlib.reload(module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return module, found


def load_class(path: str) -> Any:
    """Return the object that "module.name" names. Raises ValueError for a path without a dot."""
    if "." not in path:
        raise ValueError("You need to pass a valid path like mymodule.provider_class")
    return import_attr(path)


def get_random_alphanumeric_string(length: int) -> str:
    """Small letters and digits by chance."""
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))


def get_system_memory(*_: Any, **__: Any) -> int:
    """The memory of this machine in bytes."""
    return int(psutil.virtual_memory().total)


def get_used_memory() -> int:
    """The memory in use on this machine in bytes."""
    return int(psutil.virtual_memory().used)


def get_num_cpus(*_: Any, **__: Any) -> float:
    """How many CPUs this process may use."""
    return float(procfs.cpu_count())


def get_user() -> str:
    """Who runs this process."""
    return str(psutil.Process().username())


def get_directory_size_bytes(path: str | pathlib.Path = ".") -> int:
    """The bytes of all files below a folder."""
    return sum(each.stat().st_size for each in pathlib.Path(path).rglob("*") if each.is_file())


def get_ray_doc_version() -> str:
    """The version that pages of documentation are for."""
    return f"releases-{skate.__version__}" if skate.__version__[0].isdigit() else "master"


def is_main_thread() -> bool:
    """Return whether this is the main thread."""
    return threading.current_thread() is threading.main_thread()


def try_to_create_directory(directory_path: str | os.PathLike[str]) -> None:
    """Make a folder and those above, unless it is there."""
    os.makedirs(os.path.expanduser(directory_path), exist_ok=True)


def update_envs(env_vars: dict[str, str]) -> None:
    """Set environment variables; `${NAME}` in a value stands for the one there is."""
    for name, value in env_vars.items():
        os.environ[name] = os.path.expandvars(value)


def parse_pg_formatted_resources_to_original(pg_formatted_resources: dict[str, float]) -> dict[str, float]:
    """The resources of a placement group by their own names."""
    original: dict[str, float] = {}
    for name, amount in pg_formatted_resources.items():
        if _BUNDLE.match(name):
            continue  # each is in the group's wildcard resource as well
        match = _GROUP.match(name)
        if match is None:
            original[name] = amount
        elif match.group(1) != "bundle":
            original[match.group(1)] = amount
    return original


def try_import_each_module(module_names_to_import: list[str]) -> None:
    """Import modules; what cannot be imported is reported on stderr."""
    for name in module_names_to_import:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"Failed to preload the module {name!r}: {error}", file=sys.stderr)


def validate_namespace(namespace: Any) -> None:
    """Raise TypeError or ValueError unless it is a text that is not empty."""
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if not namespace:
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
