"""The log of a replica. Its lines go to the output of the process, which the driver shows, and to a file if one is set."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from typing import Any

import skate
from skate.serve import context
from skate.serve.identity import ReplicaID

LOGGER = "ray.serve"
#: Attributes that a record has from `logging`, or that choose where it goes. All others are fields of a JSON line.
_NO_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "serve_access_log",
    "log_to_stderr",
}
#: An attribute with a dict of further fields.
_MORE_FIELDS = "ray_serve_extra_fields"
_MAX_BYTES = 512 * 1024 * 1024
_BACKUPS = 5


class _RequestFields(logging.Filter):
    """Adds what is known of the request to each record."""

    def filter(self, record: logging.LogRecord) -> bool:
        around = context.request.get()
        if around.request_id:
            record.request_id = around.request_id
            record.route = around.route
            record.application = around.app_name
        return True


class _Text(logging.Formatter):
    def __init__(self, replica: ReplicaID, more: list[str]) -> None:
        name, app = replica.deployment_id
        place = f"{app}_{name} {replica.unique_id}".replace("%", "%%")
        attributes = "".join(f"%({each})s " for each in more)
        super().__init__(f"%(levelname)s %(asctime)s {place} {attributes}-- %(message)s")
        self._of_request = logging.Formatter(
            f"%(levelname)s %(asctime)s {place} %(request_id)s {attributes}-- %(message)s"
        )

    def format(self, record: logging.LogRecord) -> str:
        if hasattr(record, "request_id"):
            return self._of_request.format(record)
        return super().format(record)


class _Json(logging.Formatter):
    def __init__(self, replica: ReplicaID, more: list[str]) -> None:
        super().__init__()
        self._more = more
        name, app = replica.deployment_id
        runtime = skate.get_runtime_context()
        self._of_process = {
            "worker_id": runtime.get_worker_id(),
            "node_id": runtime.get_node_id(),
            "actor_id": runtime.get_actor_id(),
            "actor_name": replica.to_full_id_str(),
            "deployment": f"{app}_{name}",
            "replica": replica.unique_id,
            "component_name": "replica",
        }

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "process": record.process,
        }
        if record.exc_info:
            fields["exc_text"] = self.formatException(record.exc_info)
        fields |= {name: getattr(record, name, None) for name in self._more}
        own = {name: value for name, value in vars(record).items() if name not in _NO_FIELDS}
        nested = own.pop(_MORE_FIELDS, None)
        fields |= own
        if nested is not None:
            fields |= nested if isinstance(nested, dict) else {_MORE_FIELDS: nested}
        fields |= self._of_process
        fields["timestamp_ns"] = int(record.created * 1e9)
        return json.dumps(fields, default=str)


def _no_access_line(record: logging.LogRecord) -> bool:
    return not getattr(record, "serve_access_log", False)


def _is_for_stderr(record: logging.LogRecord) -> bool:
    return bool(getattr(record, "log_to_stderr", True))


def file_name(replica: ReplicaID) -> str:
    """Return the name of the log file of a replica."""
    name, app = replica.deployment_id
    return re.sub(r"[^A-Za-z0-9_.]", "_", f"replica_{app}_{name}_{replica.unique_id}.log")


def _file_handler(folder: str, replica: ReplicaID, formatter: logging.Formatter) -> logging.Handler:
    """Return a handler for the file of a replica, which keeps within a number of bytes."""
    import logging.handlers  # takes 5 ms and is needed only for files

    os.makedirs(folder, exist_ok=True)
    file = logging.handlers.RotatingFileHandler(
        os.path.join(folder, file_name(replica)),
        maxBytes=int(os.environ.get("RAY_ROTATION_MAX_BYTES", _MAX_BYTES)),
        backupCount=int(os.environ.get("RAY_ROTATION_BACKUP_COUNT", _BACKUPS)),
    )
    file.setFormatter(formatter)
    return logging.handlers.MemoryHandler(1, target=file)


def configure(config: Any, replica: ReplicaID) -> tuple[logging.Logger, str | None]:
    """Set up the logger `ray.serve` of this process; return it, and the path of its file if it has one."""
    logger = logging.getLogger(LOGGER)
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    more = [] if config is None else config.additional_log_standard_attrs
    text: logging.Formatter = _Text(replica, more)
    formatter = _Json(replica, more) if config is not None and config.encoding == "JSON" else text
    path = None
    handlers: list[logging.Handler] = []
    in_file = config is not None and config.logs_dir
    if os.environ.get("RAY_SERVE_LOG_TO_STDERR", "1") == "1" or not in_file:
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(text if in_file else formatter)
        shown.addFilter(_is_for_stderr)
        handlers.append(shown)
    if in_file:
        handlers.append(_file_handler(config.logs_dir, replica, formatter))
        path = os.path.join(config.logs_dir, file_name(replica))
    for handler in handlers:
        handler.addFilter(_RequestFields())
        if config is not None and not config.enable_access_log:
            handler.addFilter(_no_access_line)
        logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(config.log_level if config is not None else logging.INFO)
    logger.access_log = config is not None and config.enable_access_log  # type: ignore[attr-defined]
    return logger, path
