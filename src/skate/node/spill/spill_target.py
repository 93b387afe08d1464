"""The location of spilled values, from `init` or the environment, with Ray's names."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

FULL_AT = 0.95


@dataclass(frozen=True)
class SpillPlace:
    """Local folders or an external location; if neither is given, the folder for temporary files."""

    folders: tuple[str, ...] = ()
    uri: str = ""
    #: The fraction of a local disk in use, by all programs, above which nothing more is written.
    full_at: float = FULL_AT
    enabled: bool = True

    @classmethod
    def of(cls, given: dict[str, Any]) -> SpillPlace:
        """Determine the place from `object_spilling_directory`, `_system_config`, the environment or `_temp_dir`,
        in this order.

        `_system_config` may have `object_spilling_directory`, `object_spilling_config`, `local_fs_capacity_threshold` and
        `automatic_object_spilling_enabled`; in the environment these begin with SKATE_ or RAY_. Raises TypeError and
        ValueError.
        """
        system = given.get("_system_config") or {}
        if not isinstance(system, dict):
            raise TypeError(f"_system_config must be a dict, got {system!r}")
        full_at = _part(*_setting(system, "local_fs_capacity_threshold", FULL_AT))
        if not _flag(*_setting(system, "automatic_object_spilling_enabled", True)):
            return cls(full_at=full_at, enabled=False)
        name = "object_spilling_directory"
        folder = given.get(name) or system.get(name)
        config = system.get("object_spilling_config")
        if folder is not None and config:
            raise ValueError(
                "object_spilling_directory and object_spilling_config both set where values are "
                "spilled; pass only one"
            )
        if folder is None and not config:
            folder, name = _setting({}, name, None)
            config = _setting({}, "object_spilling_config", None)[0]
        if folder:
            return cls._at(folder, name, full_at)
        if config:
            return cls._configured(config, full_at)
        temporary = given.get("_temp_dir")
        return cls._at(temporary, "_temp_dir", full_at) if temporary else cls(full_at=full_at)

    @classmethod
    def _configured(cls, config: Any, full_at: float) -> SpillPlace:
        if isinstance(config, (str, bytes)):
            try:
                config = json.loads(config)
            except ValueError as error:
                raise ValueError(f"object_spilling_config is not JSON: {error}") from None
        kind = config.get("type") if isinstance(config, dict) else None
        params = config.get("params") if isinstance(config, dict) else None
        if kind == "filesystem" and isinstance(params, dict):
            return cls._at(params.get("directory_path"), "directory_path", full_at)
        if kind == "smart_open" and isinstance(params, dict):
            uri = params.get("uri")
            uris = [uri] if isinstance(uri, str) else uri
            if not isinstance(uris, list) or not uris or not all(isinstance(each, str) for each in uris):
                raise ValueError(
                    f'the uri of object_spilling_config must be a string such as "s3://bucket/prefix", got {uri!r}'
                )
            return cls(uri=uris[0], full_at=full_at)
        raise ValueError(
            'object_spilling_config must be {"type": "filesystem", "params": {"directory_path": ...}} or '
            f'{{"type": "smart_open", "params": {{"uri": ...}}}}, got {config!r}'
        )

    @classmethod
    def _at(cls, folder: Any, name: str, full_at: float) -> SpillPlace:
        folders = folder if isinstance(folder, (list, tuple)) else [folder]
        if not folders or not all(isinstance(each, str) and each for each in folders):
            raise ValueError(f"{name} must be the path of a folder, got {folder!r}")
        outside = [each for each in folders if "://" in each]
        if outside and len(folders) > 1:
            raise ValueError(f"{name} must be one URL, or paths of folders on local disks, got {folder!r}")
        if outside:
            return cls(uri=outside[0], full_at=full_at)
        return cls(folders=tuple(dict.fromkeys(os.path.abspath(each) for each in folders)), full_at=full_at)


def _setting(system: dict[str, Any], name: str, default: Any) -> tuple[Any, str]:
    """Return the value from `_system_config`, or else the environment, with the name it was set under."""
    if name in system:
        return system[name], name
    for variable in (f"SKATE_{name.upper()}", f"RAY_{name}"):
        if os.environ.get(variable):
            return os.environ[variable], variable
    return default, name


def _part(value: Any, name: str) -> float:
    try:
        part = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        part = -1.0
    if not 0 < part <= 1:
        raise ValueError(f"{name} must be a fraction of the disk such as 0.95, got {value!r}")
    return part


def _flag(value: Any, name: str) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "1", "0"):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return text in ("true", "1")
