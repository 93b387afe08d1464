"""RuntimeEnv: the public class, a dict that validates its values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from skate.runtime_env.config import RuntimeEnvConfig
from skate.runtime_env.fields import FIELDS, check_field, check_together
from skate.runtime_env.hooks import pickled

_WHERE = "RuntimeEnv()"


class RuntimeEnv(dict):  # type: ignore[type-arg]
    """A worker's environment for a task or an actor; behaves as a dict of the given fields.

    Args:
        py_modules: folders, .py files, wheels, imported modules or URIs that workers can import.
        py_executable: the command that starts the worker's Python, for example "python -X dev".
        working_dir: a folder, .zip file or URI; workers start in a copy of it.
        pip: requirements to install with pip: a list, a requirements file, or a dict with "packages" and
            optionally "pip_check" (bool), "pip_version" and "pip_install_options".
        conda: the name of a conda environment, a .yml file, or the environment as a dict.
        container: a dict with "image"; the worker runs in this container.
        env_vars: environment variables, str to str; "${NAME}" in a value stands for the node's variable.
        worker_process_setup_hook: a function without arguments, or its full name; each worker runs it first.
        nsight: "default" or options; profile the worker with Nsight Systems.
        rocprof_sys: "default" or options; profile the worker with ROCm's profiler.
        config: a RuntimeEnvConfig or a dict of its fields.
        image_uri: the name of a container image for the worker.
        uv: requirements to install with uv, in the same forms as pip.
        **kwargs: the remaining fields: excludes, java_jars.

    Raises:
        TypeError: a field holds a value of another type.
        ValueError: an unknown field, a file that does not exist, or fields that exclude each other.
    """

    known_fields = frozenset(FIELDS)
    extensions_fields = frozenset({"_ray_release", "_ray_commit", "_inject_current_ray"})

    def __init__(
        self,
        *,
        py_modules: list[str] | None = None,
        py_executable: str | None = None,
        working_dir: str | None = None,
        pip: list[str] | None = None,
        conda: dict[str, str] | str | None = None,
        container: dict[str, str] | None = None,
        env_vars: dict[str, str] | None = None,
        worker_process_setup_hook: Callable[..., Any] | str | None = None,
        nsight: str | dict[str, str] | None = None,
        rocprof_sys: str | dict[str, dict[str, str]] | None = None,
        config: dict[str, Any] | RuntimeEnvConfig | None = None,
        _validate: bool = True,
        image_uri: str | None = None,
        uv: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        given = {
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "container": container,
            "image_uri": image_uri,
            "env_vars": env_vars,
            "worker_process_setup_hook": worker_process_setup_hook,
            "_nsight": nsight,
            "_rocprof_sys": rocprof_sys,
            "config": config,
            **kwargs,
        }
        for name, value in given.items():
            if value is None:
                continue
            if _validate:
                self[name] = value
            else:
                super().__setitem__(name, value)
        if _validate:
            check_together(self, _WHERE)

    def __setitem__(self, name: str, value: Any) -> None:
        checked = check_field(name, value, _WHERE)
        if checked is None:
            self.pop(name, None)
        else:
            super().__setitem__(name, checked)

    def __reduce__(self) -> tuple[Any, ...]:
        # Not through __init__: validated values may name files of the machine on which they were written.
        return _restored, (dict(self),)

    def get(self, name: str, default: Any = None, data_class: Callable[..., Any] | None = None) -> Any:
        """Return the value of a field or the default; with data_class, an instance of it from the value's items."""
        if name not in self:
            return default
        value = self[name]
        if data_class is not None and isinstance(value, dict):
            return data_class(**value)
        return value

    def set(self, name: str, value: Any) -> None:
        """Set a field after validation."""
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dict."""
        return dict(self)

    def serialize(self) -> str:
        """Serialize the environment as JSON with sorted keys; a setup hook that is a function is pickled into it."""
        return json.dumps(self, sort_keys=True, default=_as_json)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """Restore an environment from the output of `serialize`, without validating it again."""
        return _restored(json.loads(serialized_runtime_env))

    def working_dir(self) -> str:
        """Return the working directory, or ""."""
        return str(super().get("working_dir", ""))

    def py_modules(self) -> list[str]:
        """Return the modules to import from, or an empty list."""
        return list(super().get("py_modules", []))

    def env_vars(self) -> dict[str, str]:
        """Return the environment variables, or an empty dict."""
        return dict(super().get("env_vars", {}))

    def py_executable(self) -> str | None:
        """Return the command that starts the worker's Python, or None for the node's own."""
        return super().get("py_executable")

    def image_uri(self) -> str | None:
        """Return the container image, or None."""
        return super().get("image_uri")

    def java_jars(self) -> list[str]:
        """Return the Java archives, or an empty list."""
        return list(super().get("java_jars", []))

    def nsight(self) -> str | dict[str, str] | None:
        """Return the options for Nsight Systems, or None."""
        return super().get("_nsight")

    def rocprof_sys(self) -> str | dict[str, dict[str, str]] | None:
        """Return the options for ROCm's profiler, or None."""
        return super().get("_rocprof_sys")

    def pip_config(self) -> dict[str, Any]:
        """Return the pip field in normal form, or an empty dict."""
        return dict(super().get("pip", {}))

    def uv_config(self) -> dict[str, Any]:
        """Return the uv field in normal form, or an empty dict."""
        return dict(super().get("uv", {}))

    def conda_config(self) -> str | None:
        """Return the conda environment to build, as JSON, or None."""
        conda = super().get("conda")
        return json.dumps(conda, sort_keys=True) if isinstance(conda, dict) else None

    def conda_env_name(self) -> str | None:
        """Return the name of the existing conda environment to use, or None."""
        conda = super().get("conda")
        return conda if isinstance(conda, str) else None

    def working_dir_uri(self) -> str | None:
        """Return the URI of the working directory, or None for a local folder or none."""
        return self.working_dir() or None

    def py_modules_uris(self) -> list[str]:
        """Return the modules to import from, like `py_modules`."""
        return self.py_modules()

    def plugin_uris(self) -> list[str]:
        """Return the URIs of fields that plugins handle; there are none."""
        return []

    def plugins(self) -> list[tuple[str, Any]]:
        """Return the fields that plugins handle; there are none."""
        return []

    def get_extension(self, key: str) -> Any:
        """Return the value of one of Ray's internal fields. Raises ValueError for any other key."""
        if key not in self.extensions_fields:
            raise ValueError(f"Extension key must be one of {sorted(self.extensions_fields)}, got: {key}")
        return super().get(key)

    def virtualenv_name(self) -> str | None:
        """Return the virtual environment to use; no field sets it."""
        return None

    def py_container_worker_path(self) -> str | None:
        """Return the worker's program in the container, or None."""
        return (super().get("container") or {}).get("worker_path")

    def py_container_run_options(self) -> list[str] | None:
        """Return the options of the container, or None."""
        return (super().get("container") or {}).get("run_options")

    def has_working_dir(self) -> bool:
        """True if a working directory is requested."""
        return bool(self.working_dir())

    def has_pip(self) -> bool:
        """True if packages are to be installed with pip."""
        return "pip" in self

    def has_uv(self) -> bool:
        """True if packages are to be installed with uv."""
        return "uv" in self

    def has_conda(self) -> bool:
        """True if a conda environment is requested."""
        return "conda" in self

    def has_py_container(self) -> bool:
        """True if a container image is requested."""
        return bool(self.py_container_image())

    def py_container_image(self) -> str | None:
        """Return the image of the container field, or None."""
        container = super().get("container") or {}
        return container.get("image")


def _restored(fields: dict[str, Any]) -> RuntimeEnv:
    env = RuntimeEnv(_validate=False)
    dict.update(env, fields)
    return env


def _as_json(value: Any) -> str:
    if callable(value):
        return pickled(value)
    raise TypeError(f"RuntimeEnv.serialize(): a {type(value).__name__} cannot be written as JSON")
