"""Applies a `LoggingConfig` to Python's loggers of the driver and its workers.

The driver leaves the config in its environment, which its workers take over.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any

from skate.client.runtime_context import RuntimeContext
from skate.client.session import session
from skate.client.session.logging_config import ATTRIBUTES, LoggingConfig

#: Where workers find the config of their driver, as JSON.
VARIABLE = "SKATE_LOGGING_CONFIG"
#: The setting of Ray for programs that pass no config.
ENCODING_VARIABLE = "RAY_LOGGING_CONFIG_ENCODING"
#: The name of the handler that `apply` adds.
HANDLER = "skate.logging_config"
TEXT_FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
#: Loggers that get the handler: the root, and those of the frameworks.
LOGGERS = (None, "ray", "skate")
#: Extra fields whose entries become fields of the line.
FLAT = frozenset({"ray_serve_extra_fields"})


class ContextFilter(logging.Filter):
    """Adds to each record where it comes from: job, node, worker, actor and task."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes that are known, and pass the record on."""
        process = session.current_or_none()
        if process is None:
            return True
        context = RuntimeContext(process)
        known = {
            "job_id": context.get_job_id(),
            "worker_id": context.get_worker_id(),
            "node_id": context.get_node_id(),
        }
        if not process.is_driver:
            known["actor_id"] = context.get_actor_id() or ""
            known["task_id"] = context.get_task_id() or ""
            if known["task_id"]:
                known["task_name"] = context.get_task_name() or ""
                known["task_func_name"] = context.get_task_function_name() or ""
            known["actor_name"] = context.get_actor_name() or ""
        record.__dict__.update({name: value for name, value in known.items() if value})
        return True


class _Formatter(logging.Formatter):
    """Finds the fields of a record that come after its text."""

    def __init__(self, config: LoggingConfig) -> None:
        super().__init__(TEXT_FORMAT)
        self._more = config.additional_log_standard_attrs

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the additional attributes, the context, the fields of the user, and the time in nanoseconds."""
        found = {name: getattr(record, name, None) for name in self._more}
        for name, value in record.__dict__.items():
            if name in FLAT and isinstance(value, dict):
                found.update(value)
            elif name not in ATTRIBUTES:
                found[name] = value
        found["timestamp_ns"] = int(record.created * 1e9)
        return found


class TextFormatter(_Formatter):
    """The text of a record, and the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = super().format(record)
        return " ".join([text, *(f"{name}={value}" for name, value in self.fields(record).items())])


class JSONFormatter(_Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        found: dict[str, Any] = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "process": record.process,
        }
        if record.exc_info:
            found["exc_text"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps({**found, **self.fields(record)}, default=str)


FORMATTERS: dict[str, type[_Formatter]] = {"TEXT": TextFormatter, "JSON": JSONFormatter}


def apply(config: LoggingConfig) -> None:
    """Let the root logger and those of the frameworks write lines in the format and from the level of a config."""
    handler = logging.StreamHandler()
    handler.name = HANDLER
    handler.setLevel(config.log_level)
    handler.setFormatter(FORMATTERS[config.encoding](config))
    handler.addFilter(ContextFilter())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [each for each in logger.handlers if each.name != HANDLER and name is None]
        logger.addHandler(handler)
        logger.setLevel(config.log_level)
        logger.propagate = False


def begin(given: LoggingConfig | None) -> None:
    """Apply the config of a program, or the one that its environment asks for, here and in the workers to come.

    Raises:
        ValueError: the environment names an encoding that does not exist.
    """
    encoding = os.environ.get(ENCODING_VARIABLE)
    config = given or (LoggingConfig(encoding=encoding) if encoding else None)
    if config is None:
        return
    apply(config)
    os.environ[VARIABLE] = json.dumps(config.to_dict())
    if forget not in session.endings:
        session.endings.append(forget)


def forget() -> None:
    """Leave the next session without the config."""
    os.environ.pop(VARIABLE, None)


def adopt() -> None:
    """Apply the config of the driver, in a worker."""
    apply(LoggingConfig.from_dict(json.loads(os.environ[VARIABLE])))
