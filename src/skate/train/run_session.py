"""Starts the session of a run, with workers that have their framework preloaded.

Loading torch takes two seconds of CPU time in each worker. So it is loaded once, in a process from which
workers are forked: the session's own if the run starts the session, else a separate one (`SKATE_PRELOAD`), so
that other work does not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skate

_VARIABLE = "SKATE_PRELOAD"


def ensure_session(preload: Sequence[str]) -> None:
    """Start a session if there is none; its workers are forked with the framework loaded."""
    if not skate.is_initialized():
        skate.init(preload=list(preload))


def with_preload(runtime_env: Any, preload: Sequence[str]) -> dict[str, Any] | None:
    """Return a runtime environment that preloads modules in its workers; None if there is nothing to set."""
    given = dict(runtime_env or {})
    if preload:
        given["env_vars"] = {_VARIABLE: ",".join(preload), **(given.get("env_vars") or {})}
    return given or None


def warm(runtime_env: Any, preload: Sequence[str]) -> None:
    """Load the framework in the background for a run that begins soon; no-op without a session."""
    if preload and skate.is_initialized() and not _in_worker():
        skate.remote(_nothing).options(num_cpus=0, runtime_env=with_preload(runtime_env, preload)).remote()


def _in_worker() -> bool:
    context = skate.get_runtime_context()
    return context.get_task_id() is not None or context.get_actor_id() is not None


def _nothing() -> None:
    """No-op that runs once its worker has started."""
