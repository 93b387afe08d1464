"""How the log lines of a job look."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

ENCODINGS = ("TEXT", "JSON")
LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "NOTSET")
# Attributes of a logging.LogRecord that a line can carry besides time, level, message, file and line.
ATTRIBUTES = (
    "args", "asctime", "created", "exc_info", "exc_text", "filename", "funcName", "levelname", "levelno",
    "lineno", "message", "module", "msecs", "msg", "name", "pathname", "process", "processName",
    "relativeCreated", "stack_info", "taskName", "thread", "threadName",
)  # fmt: skip


@dataclass
class LoggingConfig:
    """The format and level of Python's log lines.

    Args:
        encoding: "TEXT" or "JSON".
        log_level: the least level that is logged, as `logging` names it.
        additional_log_standard_attrs: attributes of `logging.LogRecord` to add to each line.

    Raises ValueError for an encoding, a level or an attribute that does not exist.
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding={self.encoding!r} is unknown; use {' or '.join(ENCODINGS)}")
        if isinstance(self.log_level, str) and self.log_level not in LEVELS:
            raise ValueError(f"log_level={self.log_level!r} is unknown; levels are {', '.join(LEVELS)}")
        for name in self.additional_log_standard_attrs:
            if name not in ATTRIBUTES:
                raise ValueError(f"log records have no attribute {name!r}; they have {', '.join(ATTRIBUTES)}")

    def to_dict(self) -> dict[str, Any]:
        """Its fields as a dict."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> LoggingConfig:
        """A config from such a dict; keys that it does not know are left out."""
        known = {each.name for each in fields(cls)}
        return cls(**{key: value for key, value in d.items() if key in known})
