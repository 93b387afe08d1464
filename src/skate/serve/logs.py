"""The log of a replica. Its lines go to the output of the process, which the driver shows."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

from skate.serve import context

LOGGER = "ray.serve"


class _Fields(logging.Filter):
    def __init__(self, replica: str) -> None:
        super().__init__()
        self.replica = replica

    def filter(self, record: logging.LogRecord) -> bool:
        around = context.request.get()
        record.request_id = around.request_id
        record.route = around.route
        record.replica = self.replica
        return True


class _Json(logging.Formatter):
    def __init__(self, more: list[str]) -> None:
        super().__init__()
        self.more = more

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "replica": getattr(record, "replica", ""),
            "request_id": getattr(record, "request_id", ""),
            "message": record.getMessage(),
        }
        fields |= {name: getattr(record, name, None) for name in self.more}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure(config: Any, replica: str) -> logging.Logger:
    """Set up the logger `ray.serve` of this process."""
    logger = logging.getLogger(LOGGER)
    for old in list(logger.handlers):
        logger.removeHandler(old)
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if config is not None and config.logs_dir:
        os.makedirs(config.logs_dir, exist_ok=True)
        name = "replica_" + replica.replace(" ", "_").replace("/", "_") + ".log"
        handler = logging.FileHandler(os.path.join(config.logs_dir, name))
    if config is not None and config.encoding == "JSON":
        handler.setFormatter(_Json(config.additional_log_standard_attrs))
    else:
        handler.setFormatter(
            logging.Formatter("%(levelname)s %(asctime)s %(replica)s %(request_id)s %(message)s")
        )
    handler.addFilter(_Fields(replica))
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(config.log_level if config is not None else logging.INFO)
    logger.access_log = config is not None and config.enable_access_log  # type: ignore[attr-defined]
    return logger
