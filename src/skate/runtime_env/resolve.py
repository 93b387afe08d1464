"""Validation: checks an environment, and makes it independent of the process that wrote it.

Cheap, because it runs at each submission: it only makes paths absolute and converts values to JSON.
"""

from __future__ import annotations

import os
from typing import Any

from skate.runtime_env.fields import check, protocol_of
from skate.runtime_env.hooks import pickled
from skate.runtime_env.packages.requirements import anchored
from skate.runtime_env.refusal import Place


def validate(env: Any, *, where: str) -> dict[str, Any]:
    """Return a runtime environment as a dict of JSON values, valid in any process of this machine.

    Args:
        env: a dict, a RuntimeEnv or None; it is not changed.
        where: the call it was given to, for errors, such as "init()" or "task train".

    Raises:
        TypeError: it is not a dict, or a field has a value of another type.
        ValueError: an unknown field, a missing file, or fields that exclude each other.
    """
    return _resolved(check(env, where), where)


def _resolved(env: dict[str, Any], where: str) -> dict[str, Any]:
    """Normalize every value for transmission; idempotent."""
    done = dict(env)
    folder = os.getcwd()
    if "working_dir" in done:
        done["working_dir"] = _absolute(done["working_dir"])
    if "py_modules" in done:
        done["py_modules"] = [_absolute(item) for item in done["py_modules"]]
    for installer in ("pip", "uv"):
        if installer in done:
            lines = [anchored(line, folder) for line in done[installer]["packages"]]
            done[installer] = {**done[installer], "packages": lines}
    if isinstance(done.get("conda"), str) and done["conda"].endswith((".yml", ".yaml")):
        done["conda"] = _absolute(done["conda"])
    if "config" in done:
        done["config"] = {
            **done["config"],
            "log_files": [_absolute(name) for name in done["config"]["log_files"]],
        }
    hook = done.get("worker_process_setup_hook")
    if callable(hook):
        done["worker_process_setup_hook"] = _travelling_hook(hook, where)
    return done


def _absolute(path: str) -> str:
    return path if protocol_of(path) else os.path.abspath(os.path.expanduser(path))


def _travelling_hook(hook: Any, where: str) -> str:
    try:
        return pickled(hook)
    except Exception as error:  # any error of a user's __reduce__
        raise Place(where, "worker_process_setup_hook").wrong_type(
            "a function that can be pickled", hook, f"pickling it failed: {type(error).__name__}: {error}"
        ) from error
