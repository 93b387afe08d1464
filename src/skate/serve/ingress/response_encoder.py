"""Conversion of a handler's return value to the body of an HTTP response."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import pathlib
import re
import uuid
from collections.abc import Mapping
from typing import Any

TEXT = b"text/plain; charset=utf-8"
JSON = b"application/json"
PLAIN = b"text/plain"
_encoder = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=lambda value: plain(value)
).encode


def encoded(value: Any) -> tuple[bytes, bytes]:
    """Return content type and body: text for str, bytes unchanged, else JSON. Raise TypeError if there is no JSON form."""
    if value is None:
        return PLAIN, b""
    kind = type(value)
    if kind is str:
        return TEXT, value.encode()
    if kind is bytes:
        return PLAIN, value
    if isinstance(value, (bytearray, memoryview)):
        return PLAIN, bytes(value)
    return JSON, _encoder(value).encode()


def plain(value: Any) -> Any:
    """Convert values unknown to JSON to plain data: dataclasses, pydantic models, enums, dates, arrays."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    module = type(value).__module__  # of modules that few programs use
    if module == "decimal":
        exponent = value.as_tuple().exponent
        return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
    if isinstance(value, (uuid.UUID, pathlib.PurePath, Exception)) or module == "ipaddress":
        return str(value)
    if isinstance(value, re.Pattern):
        return value.pattern
    if isinstance(value, (set, frozenset, tuple)) or type(value).__name__ in ("deque", "generator"):
        return list(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "to_dict") and hasattr(value, "columns"):  # a DataFrame
        return value.to_dict(orient="records")
    for convert in ("tolist", "item"):  # arrays and their scalars
        call = getattr(value, convert, None)
        if call is not None:
            return call()
    if hasattr(value, "__dict__") and not callable(value):  # names that begin with _sa are SQLAlchemy's own
        return {name: each for name, each in vars(value).items() if not name.startswith("_sa")}
    raise TypeError(
        f"a handler returned a {type(value).__name__}, which is not JSON-serializable; return plain data, text, "
        "bytes or a Response"
    )
