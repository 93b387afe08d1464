"""The key of an environment: equal for environments that set up the same worker, otherwise different.

Local files count by their contents, so a changed working directory is a different environment and a copy of
it elsewhere is the same. The setup options (`config`) do not count.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

from skate.runtime_env.fields import protocol_of
from skate.runtime_env.hooks import pickled
from skate.runtime_env.package import content_hash, members, module_members
from skate.runtime_env.packages.requirements import local_path

_UNCOUNTED = frozenset({"config", "excludes", "_ray_commit", "_ray_release", "_inject_current_ray"})


def env_key(env: dict[str, Any] | None) -> str:
    """Return the key of a validated environment, 32 hex digits; "" for one that requests nothing."""
    counted = {
        name: value for name, value in (env or {}).items() if name not in _UNCOUNTED and value is not None
    }
    if not counted:
        return ""
    excludes = tuple((env or {}).get("excludes") or ())
    described = {name: _described(name, value, excludes) for name, value in counted.items()}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _described(name: str, value: Any, excludes: Sequence[str]) -> Any:
    if name == "working_dir":
        return _folder_or_file(value, excludes)
    if name == "py_modules":
        return [_module(item, excludes) for item in value]
    if name in ("pip", "uv"):
        return installed(value)
    if name == "conda" and isinstance(value, str) and os.path.isfile(value):
        return ["file", path_hash(value)]
    if name == "env_vars":
        # Order matters only if one value may be substituted into another.
        return list(value.items()) if any("${" in text for text in value.values()) else value
    if name == "worker_process_setup_hook" and callable(value):
        return pickled(value)
    return value


def _folder_or_file(path: str, excludes: Sequence[str]) -> list[str]:
    if protocol_of(path):
        return ["uri", path]
    return ["files", path_hash(path, excludes)]


def _module(path: str, excludes: Sequence[str]) -> list[str]:
    if protocol_of(path):
        return ["uri", path]
    return ["files", content_hash(module_members(path, excludes))]


def installed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the packages of a pip or uv field, with the contents of their local files."""
    local = {line: path_hash(path) for line in spec["packages"] if (path := local_path(line))}
    return {**spec, "local": local} if local else spec


def path_hash(path: str, excludes: Sequence[str] = ()) -> str:
    """Return the hash of a file's or a folder's contents."""
    return content_hash(members(path, excludes) if os.path.isdir(path) else module_members(path))
