"""The engine's interface to runtime environments: validate at submission, merge, prepare on the node, release.

validate   in the client, at the call: reject errors, and make the environment independent of the process
merge      in the client: combine the job's environment with the task's
share      in the client, in a cluster of machines: package local folders, so that every node can fetch them
prepare    on the node, in a thread that may block: put everything that a worker needs on disk
release    on the node, when the last worker in the environment has ended
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env import cache as caches
from skate.runtime_env.cache import Cache
from skate.runtime_env.config import DEFAULT_TIMEOUT_S
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.hooks import travelling
from skate.runtime_env.merge import merge
from skate.runtime_env.packages.conda import conda_environment, described
from skate.runtime_env.packages.virtual_environments import command_of, environment, worker_env_vars
from skate.runtime_env.resolve import validate
from skate.runtime_env.trees import FetchPackage, frozen_fields, module_paths, shared_fields, working_tree

__all__ = ["Prepared", "merge", "prepare", "release", "share", "validate"]

_UNSUPPORTED = {
    "container": "runs the worker in a container, which Skate does not support",
    "image_uri": "runs the worker in a container, which Skate does not support",
    "java_jars": "is for Java workers, but Skate has only Python workers",
    "_nsight": "profiles the worker with Nsight Systems, which Skate does not start",
    "_rocprof_sys": "profiles the worker with ROCm's profiler, which Skate does not start",
}
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Prepared:
    """The settings with which a worker is started.

    Attributes:
        env_vars: variables set on top of the node's environment.
        sys_path: folders put in front of the worker's sys.path, in this order.
        cwd: the folder in which the worker starts, or None for the node's own.
        python: the command that starts the worker's Python, quoted for a shell; None for the node's own.
        setup_hook: for skate.runtime_env.hooks.run in the worker, before its first task; None for none.
        entries: the cache entries held until `release`.
    """

    env_vars: dict[str, str]
    sys_path: list[str]
    cwd: str | None = None
    python: str | None = None
    setup_hook: bytes | str | None = None
    entries: tuple[Path, ...] = ()

    @property
    def argv(self) -> list[str] | None:
        """`python` as a list of arguments, in its directory."""
        if self.python is None:
            return None
        words = shlex.split(self.python)
        # A script that starts Python may be in the working directory; Python itself gets the directory later.
        if self.cwd is not None and len(words) > 1:
            return ["/bin/sh", "-c", 'cd "$0" && exec "$@"', self.cwd, *words]
        return words


def share(env: dict[str, Any], cache_dir: str | Path) -> dict[str, Any]:
    """Return the validated environment for any node of a cluster: its local folders and files are replaced by URIs of packages
    with their current contents.

    The packages stay in the cache as long as this process lives; other nodes fetch them from there. Raises
    RuntimeEnvSetupError when a folder is larger than a package may be, or cannot be read.
    """
    if not (env.get("working_dir") or env.get("py_modules") or isinstance(env.get("conda"), str)):
        return env
    done = shared_fields(env, _cache(Path(cache_dir)), _deadline(env, None), _no_note)
    if isinstance(env.get("conda"), str):
        done["conda"] = described(env["conda"])
    return done


def prepare(
    env: dict[str, Any],
    cache_dir: Path | None = None,
    *,
    cancelled: threading.Event | None = None,
    fetch_package: FetchPackage | None = None,
) -> Prepared:
    """Prepare a worker's environment; may take minutes, so do not call it on an I/O loop.

    Args:
        env: a validated environment.
        cache_dir: the cache folder; the user's own by default.
        cancelled: set it to end the setup early with an error.
        fetch_package: fetches a package that only another node has.

    Raises RuntimeEnvSetupError if the setup fails; the next call retries it.
    """
    for name, problem in _UNSUPPORTED.items():
        if name in env:
            raise RuntimeEnvSetupError(f"runtime_env[{name.lstrip('_')!r}] {problem}. Remove the field.")
    cache = _cache(cache_dir)
    held: list[Path] = []
    try:
        return _prepare(env, cache, _deadline(env, cancelled), held, fetch_package)
    except BaseException:
        for entry in held:
            cache.release(entry)
        raise


def release(prepared: Prepared, cache_dir: Path | None = None) -> None:
    """Release an environment's cache entries; called once for each `prepare` that returned."""
    cache = _cache(cache_dir)
    for entry in prepared.entries:
        cache.release(entry)


def _prepare(
    env: dict[str, Any],
    cache: Cache,
    deadline: Deadline,
    held: list[Path],
    fetch_package: FetchPackage | None,
) -> Prepared:
    def note(entry: Path) -> Path:
        held.append(entry)
        return entry

    env_vars = _expanded(env.get("env_vars") or {})
    packed = frozen_fields(env, cache, deadline, note)
    # As in Ray, modules are found before files of the same name in the working directory.
    paths = module_paths(packed.get("py_modules") or [], cache, deadline, note, fetch_package)
    cwd = None
    if packed.get("working_dir"):
        cwd = working_tree(packed["working_dir"], cache, deadline, note, fetch_package)
        paths.append(cwd)
    python = env.get("py_executable")
    log_files = (env.get("config") or {}).get("log_files") or ()
    for installer in ("pip", "uv"):
        if env.get(installer):
            path = note(environment(cache, installer, env[installer], env_vars, deadline, log_files))
            env_vars.update(worker_env_vars(path, env_vars))
            python = python or command_of(path)
    if env.get("conda"):
        conda = conda_environment(env["conda"], cache, env_vars, deadline, note)
        env_vars.update(worker_env_vars(conda, env_vars), CONDA_PREFIX=str(conda))
        env_vars.pop("VIRTUAL_ENV", None)
        python = python or command_of(conda)
    hook = env.get("worker_process_setup_hook")
    return Prepared(env_vars, paths, cwd, python, None if hook is None else travelling(hook), tuple(held))


def _expanded(env_vars: Mapping[str, str]) -> dict[str, str]:
    """Replace ${NAME} in values: by a preceding variable, else the node's, else an empty text."""
    done: dict[str, str] = {}
    for name, text in env_vars.items():
        done[name] = _VARIABLE.sub(lambda match: done.get(match[1], os.environ.get(match[1], "")), text)
    return done


def _cache(cache_dir: Path | None) -> Cache:
    return caches.at(caches.default_root() if cache_dir is None else Path(cache_dir))


def _deadline(env: Mapping[str, Any], cancelled: threading.Event | None) -> Deadline:
    seconds = (env.get("config") or {}).get("setup_timeout_seconds", DEFAULT_TIMEOUT_S)
    return Deadline(None if seconds == -1 else seconds, cancelled)


def _no_note(entry: Path) -> Path:
    return entry
