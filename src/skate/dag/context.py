"""Settings of compiled graphs, with Ray's names, defaults and environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


def _setting(name: str, default: Any) -> Any:
    """Return `RAY_CGRAPH_<name>` if it is set, converted to the type of the default."""
    text = os.environ.get(f"RAY_CGRAPH_{name}")
    if text is None:
        return default
    if isinstance(default, bool):
        return text == "1"
    return type(default)(float(text)) if isinstance(default, int) else float(text)


def _from(name: str, default: Any) -> Any:
    return field(default_factory=lambda: _setting(name, default))


DEFAULT_SUBMIT_TIMEOUT_S: int = _setting("submit_timeout", 10)
DEFAULT_GET_TIMEOUT_S: int = _setting("get_timeout", 10)
DEFAULT_TEARDOWN_TIMEOUT_S: int = _setting("teardown_timeout", 30)
DEFAULT_READ_ITERATION_TIMEOUT_S: float = _setting("read_iteration_timeout", 0.1)
DEFAULT_BUFFER_SIZE_BYTES: int = _setting("buffer_size_bytes", 1_000_000)
DEFAULT_MAX_INFLIGHT_EXECUTIONS: int = _setting("max_inflight_executions", 10)
DEFAULT_MAX_BUFFERED_RESULTS: int = _setting("max_buffered_results", 1000)
DEFAULT_OVERLAP_GPU_COMMUNICATION: bool = _setting("overlap_gpu_communication", False)


@dataclass
class DAGContext:
    """Settings for graphs compiled from now on; times are in seconds.

    `submit_timeout`: how long `execute` waits for room. `get_timeout`: how long a get without a timeout waits.
    `teardown_timeout`: how long actors may take to leave the graph before they are killed. `buffer_size_bytes`: the room for
    one value; larger values take more. `max_inflight_executions`, `max_buffered_results`: limits of
    unfinished executions, and of results that were read but not fetched. `read_iteration_timeout` and
    `overlap_gpu_communication` are Ray's; shared memory does not need them.
    """

    submit_timeout: int = _from("submit_timeout", 10)
    get_timeout: int = _from("get_timeout", 10)
    teardown_timeout: int = _from("teardown_timeout", 30)
    read_iteration_timeout: float = _from("read_iteration_timeout", 0.1)
    buffer_size_bytes: int = _from("buffer_size_bytes", 1_000_000)
    max_inflight_executions: int = _from("max_inflight_executions", 10)
    max_buffered_results: int = _from("max_buffered_results", 1000)
    overlap_gpu_communication: bool = _from("overlap_gpu_communication", False)

    @staticmethod
    def get_current() -> DAGContext:
        """The settings of this process."""
        global _context
        if _context is None:
            _context = DAGContext()
        return _context


_context: DAGContext | None = None
