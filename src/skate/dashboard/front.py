"""The page at `/`, and the files that it is made of. They are the same for everybody, and have no data of the session."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).with_name("page")
INDEX = "index.html"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
#: What the page may do: its own files, and questions to its own server. The import map is the only script inside of it.
_POLICY = (
    "default-src 'none'; script-src 'self' 'sha256-{map}'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str


@cache
def files() -> dict[str, PageFile]:
    """Return the files of the page by their paths below its folder. Nothing else can be asked for."""
    return {
        path.relative_to(FOLDER).as_posix(): PageFile(path.read_bytes(), TYPES[path.suffix])
        for path in FOLDER.rglob("*")
        if path.suffix in TYPES
    }


@cache
def policy() -> str:
    """Return the Content-Security-Policy of the page."""
    found = _IMPORT_MAP.search(files()[INDEX].content)
    assert found is not None, "the page has an import map"
    return _POLICY.format(map=base64.b64encode(hashlib.sha256(found[1]).digest()).decode())


def front(request: Request) -> Response:
    """Return the page."""
    page = files()[INDEX]
    return Response(page.content, media_type=page.media_type, headers={"content-security-policy": policy()})


def file(request: Request) -> Response:
    """Return a file of the page."""
    found = files().get(request.path_params["path"])
    if found is None:
        return Response("404: Not Found", 404)
    return Response(found.content, media_type=found.media_type)
