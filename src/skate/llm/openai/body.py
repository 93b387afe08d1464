"""The body of a request, read up to a limit: JSON, or a form with a file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from skate.llm.errors import BadRequest

#: The environment variable with the most bytes of a body. Longer bodies are rejected with 413.
BODY_MAX_VARIABLE = "SKATE_LLM_MAX_BODY_BYTES"
BODY_BYTES_MAX = 8 * 1024 * 1024
#: The most bytes of a form with a file, without the variable; OpenAI's limit for audio, and room for the fields.
FORM_BYTES_MAX = 26 * 1024 * 1024
#: The most fields of a form beside the file, and the most bytes of each.
_FIELDS_MAX, _FIELD_BYTES_MAX = 64, 64 * 1024
#: The deepest nesting of a body. Real requests are not deeper, and depth costs stack in each parser.
_DEPTH_MAX = 100
#: Longer bodies are parsed in a thread.
_SHORT_BYTES = 64 * 1024


class TooLarge(Exception):
    """A body exceeds the limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the body of the request has {size:,} bytes or more, but this server accepts at most {limit:,}"
        )


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object of a JSON body. Raises TooLarge, BadRequest."""
    raw = b"".join([part async for part in _parts(request, BODY_BYTES_MAX)])
    return _parsed(raw) if len(raw) <= _SHORT_BYTES else await asyncio.to_thread(_parsed, raw)


async def read_form(request: Request) -> tuple[bytes, dict[str, Any]]:
    """Return the content of the field `file` of a form, and the other fields; repeated ones as lists.

    Raises TooLarge, BadRequest.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise BadRequest(
            f"the body of the request must be multipart/form-data, got {kind or 'no content type'}"
        )
    parser = MultiPartParser(
        request.headers,
        _parts(request, FORM_BYTES_MAX),
        max_files=1,
        max_fields=_FIELDS_MAX,
        max_part_size=_FIELD_BYTES_MAX,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body of the request is not a form: {error}") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise BadRequest("Missing required parameter: file, an audio file", "file")
        content = await file.read()
        fields: dict[str, Any] = {}
        for name in form:
            if name != "file":
                values = form.getlist(name)
                fields[name] = values if len(values) > 1 or name.endswith("[]") else values[0]
    finally:
        await form.close()
    return content, fields


async def _parts(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a body. Raises TooLarge."""
    limit = int(os.environ.get(BODY_MAX_VARIABLE) or limit)
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise TooLarge(int(announced), limit)
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge(size, limit)
        yield part


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw.decode("utf-8-sig"))
        if b"\\u" in raw:  # JSON may contain a lone surrogate, which cannot be encoded later
            json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = "it has half of a surrogate pair" if isinstance(error, UnicodeEncodeError) else error
        raise BadRequest(f"the body of the request is not JSON: {reason}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body of the request must be a JSON object")
    if raw.count(b"[") + raw.count(b"{") > _DEPTH_MAX:
        _check_depth(body)
    return body


def _check_depth(body: object) -> None:
    level: list[Any] = [body]
    for _ in range(_DEPTH_MAX):
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise BadRequest(f"the body of the request is nested more than {_DEPTH_MAX} levels deep")
