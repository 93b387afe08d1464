"""RuntimeEnvConfig: how an environment is set up, in contrast to its contents."""

from __future__ import annotations

from typing import Any

from skate.runtime_env.refusal import Place, kind, nearest, of_strings

DEFAULT_TIMEOUT_S = 600


class RuntimeEnvConfig(dict):  # type: ignore[type-arg]
    """Options for setting up a runtime environment; behaves as a dict of its three fields.

    Args:
        setup_timeout_seconds: the time limit of the setup in seconds, at least 1, or -1 for no limit.
            Default 600.
        eager_install: set up the environment when the job starts rather than with its first task.
            Default True.
        log_files: files to which the installer's output is appended. Default none.

    Raises:
        TypeError: a field is of another type.
        ValueError: setup_timeout_seconds is 0 or below -1.
    """

    known_fields = frozenset({"setup_timeout_seconds", "eager_install", "log_files"})

    def __init__(
        self,
        setup_timeout_seconds: int = DEFAULT_TIMEOUT_S,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        place = Place("", "config")
        super().__init__(
            setup_timeout_seconds=_timeout(setup_timeout_seconds, place / "setup_timeout_seconds"),
            eager_install=_eager(eager_install, place / "eager_install"),
            log_files=_log_files(log_files, place / "log_files"),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RuntimeEnvConfig, (self["setup_timeout_seconds"], self["eager_install"], self["log_files"])

    @classmethod
    def default_config(cls) -> RuntimeEnvConfig:
        """Return a config with the default of every field."""
        return cls()

    @classmethod
    def parse_and_validate_runtime_env_config(
        cls, config: dict[str, Any] | RuntimeEnvConfig
    ) -> RuntimeEnvConfig:
        """Build a config from a dict of its fields; missing ones get their defaults."""
        return parse(config, Place("", "config"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dict."""
        return dict(self)


def parse(given: Any, place: Place) -> RuntimeEnvConfig:
    """Convert runtime_env['config'] to a RuntimeEnvConfig. Raises TypeError or ValueError for invalid values."""
    if isinstance(given, RuntimeEnvConfig):
        return given
    if not isinstance(given, dict):
        raise place.wrong_type("a dict or a RuntimeEnvConfig", given)
    for key in given:
        if key not in RuntimeEnvConfig.known_fields:
            raise place.refused(f"has the unknown field {key!r}", nearest(key, RuntimeEnvConfig.known_fields))
    config = RuntimeEnvConfig()
    if "setup_timeout_seconds" in given:
        where = place / "setup_timeout_seconds"
        config["setup_timeout_seconds"] = _timeout(given["setup_timeout_seconds"], where)
    if "eager_install" in given:
        config["eager_install"] = _eager(given["eager_install"], place / "eager_install")
    if "log_files" in given:
        config["log_files"] = _log_files(given["log_files"], place / "log_files")
    return config


def _timeout(value: Any, place: Place) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise place.wrong_type("a whole number of seconds (int)", value)
    if value != -1 and value <= 0:
        raise place.refused(f"is {value}, but must be at least 1 second", "use -1 for no limit")
    return value


def _eager(value: Any, place: Place) -> bool:
    if not isinstance(value, bool):
        raise place.wrong_type("True or False", value)
    return value


def _log_files(value: Any, place: Place) -> list[str]:
    if value is None:
        return []
    if not of_strings(value):
        odd = (
            next((item for item in value if not isinstance(item, str)), None) if type(value) is list else None
        )
        detail = f"one item is {kind(odd)}" if odd is not None else ""
        raise place.wrong_type("a list of file names (list[str])", value, detail)
    return list(value)
