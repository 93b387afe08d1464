"""The settings of one compiled graph: arguments of `experimental_compile`, which override those of the process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from skate.dag.context import DAGContext


@dataclass(frozen=True)
class Settings:
    """Validated settings; times in seconds, sizes in bytes."""

    submit_timeout: float
    get_timeout: float
    buffer_size_bytes: int
    max_inflight_executions: int
    max_buffered_results: int
    overlap_gpu_communication: bool
    enable_asyncio: bool
    default_communicator: Any

    @classmethod
    def of(cls, default_communicator: Any = "create", enable_asyncio: bool = False, **given: Any) -> Settings:
        """Fill in defaults. Raises ValueError or TypeError for invalid settings."""
        context = DAGContext.get_current()
        chosen = {
            name: getattr(context, name) if given.get(name) is None else given[name]
            for name in (
                "submit_timeout",
                "buffer_size_bytes",
                "max_inflight_executions",
                "max_buffered_results",
                "overlap_gpu_communication",
            )
        }
        for name in ("buffer_size_bytes", "max_inflight_executions"):
            if isinstance(chosen[name], bool) or not isinstance(chosen[name], int):
                raise ValueError(f"_{name} must be a positive integer, got {chosen[name]!r}")
            if chosen[name] <= 0:
                raise ValueError(f"_{name} must be a positive integer, got {chosen[name]}")
        if isinstance(default_communicator, str) and default_communicator != "create":
            raise ValueError(
                "The only allowed string for default_communicator is 'create', got "
                f"{default_communicator!r}; pass a Communicator or None otherwise"
            )
        return cls(
            get_timeout=context.get_timeout,
            enable_asyncio=enable_asyncio,
            default_communicator=default_communicator,
            **chosen,
        )
