"""Forms with too many parts, endless headers, huge names and strange charsets, sent to applications behind Serve.

The bounds are those of Starlette and python-multipart (docs/limits.md); these tests fail if a release drops one. The charset
is checked by Serve.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from attack.clients import read_answer
from attack.test_http_over_sockets import LIGHT, free_port

pytest.importorskip("fastapi", reason="forms are parsed by FastAPI")
pytest.importorskip("python_multipart", reason="forms are parsed by python-multipart")

from fastapi import FastAPI, Request

import skate
from skate import serve
from skate.serve.ingress.exchange import unsupported_charset

BODY_MAX = 4 << 20
api = FastAPI()


@api.post("/form")
async def summary(request: Request) -> dict[str, Any]:
    items = (await request.form()).multi_items()
    values = [each for _, each in items if isinstance(each, str)]
    first = values[0][:200] if values else ""
    return {"fields": len(values), "files": len(items) - len(values), "first": first}


@serve.deployment(name="Api", **LIGHT)
@serve.ingress(api)
class Api:
    """A FastAPI application with a form."""


@serve.deployment(name="Plain", **LIGHT)
class Plain:
    """A plain deployment that reads a form."""

    async def __call__(self, request: Any) -> str:
        return str(len(await request.form()))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    skate.init(num_cpus=4, log_to_driver=False, preload=["skate.serve.replica.preload"])
    serve.start(http_options={"port": number, "max_request_body_bytes": BODY_MAX})
    serve.run(Api.bind(), name="api", route_prefix="/api")
    serve.run(Plain.bind(), name="plain", route_prefix="/plain")
    yield number
    serve.shutdown()
    skate.shutdown()


def post(port: int, path: str, kind: str, body: bytes) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sock.sendall(head.encode("latin-1") + body)
        with sock.makefile("rb") as file:
            return read_answer(file)


MULTIPART = "multipart/form-data; boundary=b"
URLENCODED = "application/x-www-form-urlencoded"


def part(name: bytes = b"a", value: bytes = b"x", headers: bytes = b"", more: bytes = b"") -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="%b"%b\r\n%b\r\n%b\r\n' % (
        name,
        more,
        headers,
        value,
    )


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--b--\r\n"


FILE = part(more=b'; filename="f"')
NESTED = b"--c\r\nContent-Disposition: file; filename=g\r\nContent-Type: multipart/mixed; boundary=d\r\n\r\n--d--\r\n--c--"
REFUSED: dict[str, tuple[str, bytes]] = {
    "1,001 fields": (MULTIPART, form(part() * 1001)),
    "1,001 files": (MULTIPART, form(FILE * 1001)),
    "50,000 empty parts": (MULTIPART, form(b"--b\r\n\r\n\r\n" * 50_000)),
    "nine headers of a part": (MULTIPART, form(part(headers=b"x: y\r\n" * 8))),
    "endless headers of a part": (MULTIPART, form(part(headers=b"x: y\r\n" * 100_000))),
    "a long header of a part": (MULTIPART, form(part(headers=b"x: " + b"y" * 5000 + b"\r\n"))),
    "an endless header of a part": (MULTIPART, form(part(headers=b"x: " + b"y" * 2_000_000 + b"\r\n"))),
    "an endless name of a header": (MULTIPART, form(part(headers=b"x" * 2_000_000))),
    "a huge name of a field": (MULTIPART, form(part(name=b"n" * 5000))),
    "a huge name of a file": (MULTIPART, form(part(more=b'; filename="' + b"n" * 5000 + b'"'))),
    "a field over 1 MiB": (MULTIPART, form(part(value=b"x" * ((1 << 20) + 1)))),
    "a part without a name": (MULTIPART, form(b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n")),
    "no boundary": ("multipart/form-data", form(part())),
    "a boundary of 300 bytes": ("multipart/form-data; boundary=" + "b" * 300, form(part())),
    "1,001 fields in a line": (URLENCODED, b"a=x&" * 1001),
    "a name over 1 MiB in a line": (URLENCODED, b"n" * ((1 << 20) + 1)),
    "a value over 1 MiB in a line": (URLENCODED, b"n=" + b"%" * (1 << 20)),
    "a charset of quadratic time": (
        MULTIPART + "; charset=punycode",
        form(part(value=b"-" + b"a" * 900_000)),
    ),
    "a charset with errors of its own": (
        MULTIPART + "; charset=idna",
        form(part(value=b"xn--a-" + b"a" * 90_000)),
    ),
    "a charset that is none": (MULTIPART + "; charset=" + "x" * 1000, form(part())),
    "a charset in two pieces": (MULTIPART + "; charset*0=puny; charset*1=code", form(part())),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_form_beyond_the_bounds_is_the_clients_mistake(name: str, port: int) -> None:
    kind, body = REFUSED[name]
    for path in ("/api/form", "/plain"):
        status, text = post(port, path, kind, body)
        assert (status, b"Traceback" in text) == (400, False), text


ANSWERED: dict[str, tuple[str, bytes, bytes]] = {
    "1,000 fields": (MULTIPART, form(part() * 1000), b'{"fields":1000,"files":0,"first":"x"}'),
    "1,000 files": (MULTIPART, form(FILE * 1000), b'{"fields":0,"files":1000,"first":""}'),
    "1,000 fields in a line": (URLENCODED, b"a=x&" * 1000, b'{"fields":1000,"files":0,"first":"x"}'),
    "a large file": (MULTIPART, form(part(value=b"x" * 3_000_000, more=b'; filename="f"')), b'"files":1'),
    "lines that look like the boundary": (
        MULTIPART,
        form(part(value=b"\r\n--" * 700_000, more=b'; filename="f"')),
        b'"files":1',
    ),
    "much in front of the first part": (MULTIPART, form(b"\r\n" * 500_000, part()), b'"fields":1'),
    "much behind the last part": (MULTIPART, form(part()) + b"x" * 3_000_000, b'"fields":1'),
    "a multipart body in a part": (
        MULTIPART,
        form(part(value=NESTED, headers=b"Content-Type: multipart/mixed; boundary=c\r\n")),
        b"--c\\r\\nContent-Disposition",
    ),
    "a charset": (MULTIPART + '; charset="UTF-8"', form(part(value="é".encode())), "é".encode()),
}


@pytest.mark.parametrize("name", list(ANSWERED))
def test_a_form_within_the_bounds_is_answered(name: str, port: int) -> None:
    """A nested body stays text: no parser looks inside."""
    kind, body, wanted = ANSWERED[name]
    status, text = post(port, "/api/form", kind, body)
    assert status == 200 and wanted in text, (status, text)


def test_the_limit_of_bodies_holds_for_forms(port: int) -> None:
    assert post(port, "/api/form", MULTIPART, form(FILE, part(value=b"x" * BODY_MAX)))[0] == 413


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (b"multipart/form-data; charset=utf-8; boundary=b", None),
        (b'Multipart/Form-Data; Charset="ISO-8859-1"; boundary=b', None),
        (b"multipart/form-data; boundary=charset", None),
        (b"multipart/form-data; charset=windows-1252", None),
        (b"application/json; charset=punycode", None),
        (b"multipart/form-data; charset=PunyCode", "PunyCode"),
        (b'multipart/form-data; charset="zlib"', "zlib"),
        (b"multipart/form-data; charset*=utf-8''idna", "utf-8''idna"),
        (b"multipart/form-data; charset=utf-8; charset = undefined", "undefined"),
        (b"multipart/form-data; charset=encodings.idna", "encodings.idna"),
        (b"multipart/form-data; charset=", ""),
    ],
)
def test_charsets_that_are_refused(kind: bytes, refused: str | None) -> None:
    assert unsupported_charset([(b"host", b"x"), (b"content-type", kind)]) == refused
