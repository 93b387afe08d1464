"""Settings of `init` that have no effect: each warns once, because a setting that is silently ignored misleads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

#: The settings, with the values that request nothing, and what to do instead.
IGNORED: dict[str, tuple[tuple[Any, ...], str]] = {
    "enable_resource_isolation": ((None, False), "limit the memory with SKATE_MEMORY_LIMIT"),
    "cgroup_path": ((None,), "limit the memory with SKATE_MEMORY_LIMIT"),
    "system_reserved_cpu": ((None,), "pass a smaller num_cpus"),
    "system_reserved_memory": ((None,), "pass a smaller _memory"),
    "proxy_server_url": ((None,), "leave it out"),
    "_driver_object_store_memory": ((None,), "leave it out"),
    "_enable_object_reconstruction": ((None, False), "leave it out"),
    "_plasma_directory": ((None,), "leave it out"),
    "_redis_password": ((None,), "leave it out"),
    "_redis_username": ((None,), "leave it out"),
}
#: Keywords with an underscore that have an effect.
KNOWN = frozenset(
    {
        "_memory",
        "_system_config",
        "_temp_dir",
        "_node_ip_address",
        "_node_name",
        "_labels",
        "_tracing_startup_hook",
        "_metrics_export_port",
        "_looks",
        "_skip_env_hook",
    }
)
_warned: set[str] = set()


def warn(settings: Mapping[str, Any], stacklevel: int) -> None:
    """Warn of the settings that have no effect. Raises RuntimeError for keywords with an underscore that do not exist."""
    for name, value in settings.items():
        if name in _warned:
            continue
        if name in IGNORED:
            unset, instead = IGNORED[name]
            # Arrays and the like have no useful `==`.
            if any(value is each for each in unset):
                continue
        elif name.startswith("_") and name not in KNOWN:
            raise RuntimeError(
                f"Unknown keyword argument(s): {name} is not a setting of init(); leave it out"
            )
        else:
            continue
        _warned.add(name)
        text = f"init({name}=...) has no effect in Skate; {instead}"
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
