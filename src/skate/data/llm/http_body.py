"""A payload as the body of a request: JSON, or a form with files."""

from __future__ import annotations

import json
import uuid
from typing import Any, NamedTuple


class Body(NamedTuple):
    """Bytes and their headers."""

    content: bytes
    headers: dict[str, str]


def body_of(payload: Any, headers: dict[str, str]) -> Body:
    """Build the body for a payload. Bytes and dicts with `content` are files; they make the request a form."""
    if isinstance(payload, dict) and any(_is_file(value) for value in payload.values()):
        return _form(payload, headers)
    if not any(name.lower() == "content-type" for name in headers):
        headers = {"Content-Type": "application/json", **headers}
    return Body(_json(payload).encode(), headers)


def _is_file(value: Any) -> bool:
    return isinstance(value, (bytes, bytearray)) or (isinstance(value, dict) and "content" in value)


def _form(payload: dict[str, Any], headers: dict[str, str]) -> Body:
    boundary = uuid.uuid4().hex
    parts = []
    for name, value in payload.items():
        filename, kind, content = _field(name, value)
        lines = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"'
        if filename is not None:
            lines += f'; filename="{_quoted(filename)}"\r\nContent-Type: {kind or "application/octet-stream"}'
        parts.append(f"{lines}\r\n\r\n".encode() + content + b"\r\n")
    kept = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    kept["Content-Type"] = f"multipart/form-data; boundary={boundary}"
    return Body(b"".join(parts) + f"--{boundary}--\r\n".encode(), kept)


def _field(name: str, value: Any) -> tuple[str | None, str | None, bytes]:
    """Return a field's file name, content type and content; a field that is not a file has no file name."""
    if isinstance(value, dict) and "content" in value:
        content = value["content"]
        raw = content.encode() if isinstance(content, str) else bytes(content)
        return value.get("filename") or name, value.get("content_type"), raw
    if isinstance(value, (bytes, bytearray)):
        return name, None, bytes(value)
    return None, None, (value if isinstance(value, str) else _json(value)).encode()


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _json(value: Any) -> str:
    return json.dumps(value, default=_as_python)


def _as_python(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return value.tolist()
    raise TypeError(
        f"payloads are sent as JSON, which does not support {type(value).__name__}: {value!r:.80}"
    )
