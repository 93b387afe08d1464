"""The settings of a job: `init(job_config=JobConfig(...))`."""

from __future__ import annotations

import uuid
from typing import Any

from skate.client.session.logging_config import LoggingConfig

LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """The settings of a whole job.

    Args:
        jvm_options: accepted for compatibility; Skate has no Java workers.
        code_search_path: folders from which workers import modules.
        runtime_env: the runtime environment of the job's tasks and actors.
        metadata: texts by name, for the program's own use.
        ray_namespace: the namespace of the job's named actors; random by default.
        default_actor_lifetime: "non_detached" or "detached".

    Raises ValueError for a lifetime that does not exist, TypeError for metadata that is not text.
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: dict[str, Any] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ) -> None:
        self.jvm_options = jvm_options or []
        self.code_search_path = code_search_path or []
        if not isinstance(self.code_search_path, list):
            raise TypeError(f"code_search_path must be a list of folders, got {code_search_path!r}")
        self.metadata: dict[str, str] = {}
        self.py_logging_config: LoggingConfig | None = None
        self._py_driver_sys_path = _py_driver_sys_path or []
        for key, value in (metadata or {}).items():
            self.set_metadata(key, value)
        self.set_ray_namespace(ray_namespace or str(uuid.uuid4()))
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_metadata(self, key: str, value: str) -> None:
        """Add a text under a name."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"the metadata of a job must be strings, got {key!r}: {value!r}")
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: dict[str, Any] | None, validate: bool = False) -> None:
        """Set the runtime environment; it is checked when the job starts."""
        self.runtime_env = dict(runtime_env) if runtime_env is not None else {}

    def ensure_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Set the format of log lines, unless it was set before."""
        self.py_logging_config = self.py_logging_config or logging_config

    def set_py_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Set the format of log lines."""
        self.py_logging_config = logging_config

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set the namespace."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set the default lifetime of actors."""
        if default_actor_lifetime not in LIFETIMES:
            raise ValueError(
                f"default_actor_lifetime={default_actor_lifetime!r} is unknown; use one of "
                f"{', '.join(LIFETIMES)}"
            )
        self.default_actor_lifetime = default_actor_lifetime

    @classmethod
    def from_json(cls, job_config_json: dict[str, Any]) -> JobConfig:
        """Build a config from a dict with the constructor's keys; `namespace` is an alias of `ray_namespace`."""
        given = dict(job_config_json)
        return cls(
            jvm_options=given.get("jvm_options"),
            code_search_path=given.get("code_search_path"),
            runtime_env=given.get("runtime_env"),
            metadata=given.get("metadata"),
            ray_namespace=given.get("ray_namespace") or given.get("namespace"),
        )
