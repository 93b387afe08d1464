"""Where values are spilled to, as `init` was asked: the names and spellings of Ray."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

FULL_AT = 0.95


@dataclass(frozen=True)
class SpillPlace:
    """Local folders, or a place outside; none of both is the folder for temporary files."""

    folders: tuple[str, ...] = ()
    uri: str = ""
    #: The part of a local disk that may be in use, by everybody, before nothing more is written to it.
    full_at: float = FULL_AT

    @classmethod
    def of(cls, given: dict[str, Any]) -> SpillPlace:
        """From `object_spilling_directory`, and from `object_spilling_config` and `local_fs_capacity_threshold` in
        `_system_config`. Raises TypeError and ValueError."""
        system = given.get("_system_config") or {}
        if not isinstance(system, dict):
            raise TypeError(f"_system_config is a dict, not {system!r}")
        full_at = system.get("local_fs_capacity_threshold", FULL_AT)
        if isinstance(full_at, bool) or not isinstance(full_at, (int, float)) or not 0 < full_at <= 1:
            raise ValueError(f"local_fs_capacity_threshold is a part of the disk, as 0.95, not {full_at!r}")
        folder = given.get("object_spilling_directory")
        config = system.get("object_spilling_config")
        if folder is not None:
            if config is not None:
                raise ValueError(
                    "object_spilling_directory and object_spilling_config both say where values are spilled to; give one"
                )
            return cls._at(folder, "object_spilling_directory", float(full_at))
        if config is None:
            return cls(full_at=float(full_at))
        return cls._configured(config, float(full_at))

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
                    f'the uri of object_spilling_config is a text, as "s3://bucket/prefix", not {uri!r}'
                )
            return cls(uri=uris[0], full_at=full_at)
        raise ValueError(
            'object_spilling_config is {"type": "filesystem", "params": {"directory_path": ...}} or '
            f'{{"type": "smart_open", "params": {{"uri": ...}}}}, not {config!r}'
        )

    @classmethod
    def _at(cls, folder: Any, name: str, full_at: float) -> SpillPlace:
        folders = folder if isinstance(folder, (list, tuple)) else [folder]
        if not folders or not all(isinstance(each, str) and each for each in folders):
            raise ValueError(f"{name} is the path of a folder, not {folder!r}")
        if "://" in folders[0]:
            return cls(uri=folders[0], full_at=full_at)
        return cls(folders=tuple(folders), full_at=full_at)
