"""Functions of `ray._common.utils` and `ray._private.utils`: conversions of ids, imports by name, event loops."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pathlib
import random
import re
import socket
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
    """Convert bytes to hexadecimal digits."""
    return identifier.hex()


def hex_to_binary(hex_identifier: str) -> bytes:
    """Convert hexadecimal digits to bytes."""
    return bytes.fromhex(hex_identifier)


def decode(byte_str: object, allow_none: bool = False, encode_type: str = "utf-8") -> str:
    """Convert bytes to text, and None to "" if allowed. Raises ValueError for other types."""
    if byte_str is None and allow_none:
        return ""
    if not isinstance(byte_str, bytes):
        raise ValueError(f"The argument {byte_str} must be a bytes object.")
    return byte_str.decode(encode_type)


def ensure_str(s: object, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Convert bytes to text, and return text unchanged. Raises TypeError for other types."""
    if isinstance(s, str):
        return s
    if not isinstance(s, bytes):
        raise TypeError(f"expected bytes or text, got {type(s).__name__}")
    return s.decode(encoding, errors)


def build_address(host: str, port: int | str) -> str:
    """Put host and port together, an address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def find_free_port(family: int = socket.AF_INET) -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port


def env_bool(key: str, default: bool) -> bool:
    """Read an environment variable as a boolean: "true" and "1" are true."""
    text = os.environ.get(key)
    return default if text is None else text.lower() in ("true", "1")


def env_integer(key: str, default: int) -> int:
    """Read an environment variable as an integer, or return the default if it is not one."""
    text = os.environ.get(key, "")
    return int(text) if re.fullmatch("-?[0-9]+", text) else default


def env_float(key: str, default: float) -> float:
    """Read an environment variable as a number, or return the default if it is not one."""
    try:
        return float(os.environ.get(key, ""))
    except ValueError:
        return default


def get_function_args(callable: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters."""
    return list(inspect.signature(callable).parameters)


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """Return the running event loop, or create one and set it for this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop


def run_background_task(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task on the running event loop, and hold a reference to it until it is done."""
    task = asyncio.get_event_loop().create_task(coroutine)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


def import_attr(full_path: str, *, reload_module: bool = False) -> Any:
    """Import an object by "module.name" or "module:name"; the name after a colon may contain dots."""
    return import_module_and_attr(full_path, reload_module=reload_module)[1]


def import_module_and_attr(full_path: str, *, reload_module: bool = False) -> tuple[Any, Any]:
    """Import the module and the attribute of a path. Raises ValueError if it has more than one colon."""
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
    """Import an object by "module.name". Raises ValueError for a path without a dot."""
    if "." not in path:
        raise ValueError("You need to pass a valid path like mymodule.provider_class")
    return import_attr(path)


def get_random_alphanumeric_string(length: int) -> str:
    """Return a random string of lower-case letters and digits."""
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=length))


def get_system_memory(*_: object, **__: object) -> int:
    """Return the memory of this machine in bytes."""
    return int(psutil.virtual_memory().total)


def get_used_memory() -> int:
    """Return the memory in use on this machine in bytes."""
    return int(psutil.virtual_memory().used)


def get_num_cpus(*_: object, **__: object) -> float:
    """Return the number of CPUs that this process may use."""
    return float(procfs.cpu_count())


def get_user() -> str:
    """Return the name of the user who runs this process."""
    return str(psutil.Process().username())


def get_directory_size_bytes(path: str | pathlib.Path = ".") -> int:
    """Return the total size of all files in a folder and its subfolders, in bytes."""
    return sum(each.stat().st_size for each in pathlib.Path(path).rglob("*") if each.is_file())


def get_ray_doc_version() -> str:
    """Return the version of the documentation."""
    return f"releases-{skate.__version__}" if skate.__version__[0].isdigit() else "master"


def is_main_thread() -> bool:
    """Return True in the main thread."""
    return threading.current_thread() is threading.main_thread()


def try_to_create_directory(directory_path: str | os.PathLike[str]) -> None:
    """Create a folder and its parents, unless it exists."""
    os.makedirs(os.path.expanduser(directory_path), exist_ok=True)


def update_envs(env_vars: dict[str, str]) -> None:
    """Set environment variables, expanding `${NAME}` in values."""
    for name, value in env_vars.items():
        os.environ[name] = os.path.expandvars(value)


def parse_pg_formatted_resources_to_original(pg_formatted_resources: dict[str, float]) -> dict[str, float]:
    """Convert the resources of a placement group to their original names."""
    original: dict[str, float] = {}
    for name, amount in pg_formatted_resources.items():
        if _BUNDLE.match(name):
            continue  # the group's wildcard resource includes it
        match = _GROUP.match(name)
        if match is None:
            original[name] = amount
        elif match.group(1) != "bundle":
            original[match.group(1)] = amount
    return original


def try_import_each_module(module_names_to_import: list[str]) -> None:
    """Import modules, and report each failure on stderr."""
    for name in module_names_to_import:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"Failed to preload the module {name!r}: {error}", file=sys.stderr)


def validate_namespace(namespace: object) -> None:
    """Raise TypeError or ValueError unless the namespace is a non-empty string."""
    if not isinstance(namespace, str):
        raise TypeError("namespace must be None or a string.")
    if not namespace:
        raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
