"""Requests for the gate: accepted ones, with the echo's response, and rejected ones."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

AGENT = b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HTTP/1.1 like\r\nAccept: */*\r\n"
CRLFS = b"hello\r\n\r\nyo"
INNER = b"GET /no HTTP/1.1\r\nHost: evil\r\n\r\n12"
COOKIE = b"; ".join(b"key%d=value with spaces and / in it %d" % (i, i) for i in range(6))


@dataclass(frozen=True)
class Sent:
    """A request as bytes, with its meaning."""

    name: str
    data: bytes
    method: str
    path: str
    query: str = ""
    body: bytes = b""

    def echo(self, app: str) -> bytes:
        """Return the response of an application's echo."""
        text = f"{app} {self.method} {self.path}?{self.query} {len(self.body)} {zlib.crc32(self.body):x}"
        return text.encode()


def _chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + end


#: Name, request with PREFIX where its path begins, method, path, query, body.
_SERVED: list[tuple[str, bytes, str, str, str, bytes]] = [
    (
        "agent",
        b"GET PREFIX/a/b?id=1&x=%20 HTTP/1.1\r\nHost: x:80\r\n" + AGENT + b"\r\n",
        "GET",
        "/a/b",
        "id=1&x=%20",
        b"",
    ),
    (
        "cookie",
        b"GET PREFIX/%41 HTTP/1.1\r\nhost: x\r\nCookie: " + COOKIE + b"\r\n\r\n",
        "GET",
        "/A",
        "",
        b"",
    ),
    (
        "smuggled",
        b"GET PREFIX/?id=1 HTTP/1.1\r\nHost: x\r\nX: GET /?id=SMUGGLED HTTP/1.1\r\n\r\n",
        "GET",
        "/",
        "id=1",
        b"",
    ),
    (
        "posted",
        b"POST PREFIX/p HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n" + CRLFS,
        "POST",
        "/p",
        "",
        CRLFS,
    ),
    (
        "inner",
        b"POST PREFIX/p HTTP/1.1\r\nHost: x\r\nContent-Length: 34\r\n\r\n" + INNER,
        "POST",
        "/p",
        "",
        INNER,
    ),
    ("empty body", b"POST PREFIX/p HTTP/1.1\r\nHost: x\r\ncontent-length:0\r\n\r\n", "POST", "/p", "", b""),
    (
        "chunked",
        b"PUT PREFIX/c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + _chunked(b"abc", b"\r\n0\r\n\r\n"),
        "PUT",
        "/c",
        "",
        b"abc\r\n0\r\n\r\n",
    ),
    (
        "trailers and extensions",
        b"PUT PREFIX/c HTTP/1.1\r\nHost: x\r\nTRANSFER-ENCODING:\tChunked \r\n\r\n"
        b'3;a=b;c="d e"\r\nxyz\r\n00;z\r\nA: b\r\nHost: evil\r\n\r\n',
        "PUT",
        "/c",
        "",
        b"xyz",
    ),
    ("old", b"GET PREFIX/old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET", "/old", "", b""),
    ("a whole URL", b"GET http://xPREFIX/u?a=b HTTP/1.1\r\nHost: y\r\n\r\n", "GET", "/u", "a=b", b""),
    ("after a blank line", b"\r\nGET PREFIX/n HTTP/1.1\r\nHost: x\r\n\r\n", "GET", "/n", "", b""),
]


def served(prefix: str = "") -> list[Sent]:
    """Return requests for paths under a prefix."""
    root = prefix or "/"
    plain = Sent("plain", b"GET " + root.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n", "GET", root)
    return [
        plain,
        *(
            Sent(name, data.replace(b"PREFIX", prefix.encode()), method, prefix + path, query, body)
            for name, data, method, path, query, body in _SERVED
        ),
    ]


H = b"GET / HTTP/1.1\r\nHost: x\r\n"
T = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

REFUSED: dict[str, tuple[int, bytes]] = {
    "bare LF everywhere": (400, b"GET / HTTP/1.1\nHost: x\n\n"),
    "bare LF in a header": (400, b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n"),
    "bare LF at the end": (400, H + b"\n"),
    "bare LF after the request line": (400, b"GET / HTTP/1.1\nHost: x\r\n\r\n"),
    "bare CR in a value": (400, H + b"A: b\rc\r\n\r\n"),
    "a folded header": (400, H + b"A: b\r\n c\r\n\r\n"),
    "a header folded by a tab": (400, H + b"A: b\r\n\tc\r\n\r\n"),
    "folded at once": (400, b"GET / HTTP/1.1\r\n Host: x\r\n\r\n"),
    "a space before the colon": (400, H + b"A : b\r\n\r\n"),
    "a tab before the colon": (400, H + b"A\t: b\r\n\r\n"),
    "no name": (400, H + b": b\r\n\r\n"),
    "no colon": (400, H + b"abc\r\n\r\n"),
    "NUL": (400, H + b"A: b\0c\r\n\r\n"),
    "a control character": (400, H + b"A: b\x01c\r\n\r\n"),
    "DEL": (400, H + b"A: \x7f\r\n\r\n"),
    "a name that is no ASCII": (400, H + b"\xff: a\r\n\r\n"),
    "no Host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "two Hosts": (400, H + b"Host: y\r\n\r\n"),
    "a Host with a path": (400, b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n"),
    "two Hosts in one": (400, b"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (505, b"GET / HTTP/1.2\r\nHost: x\r\n\r\n"),
    "http in small letters": (400, b"GET / http/1.1\r\nHost: x\r\n\r\n"),
    "two spaces": (400, b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "two spaces later": (400, b"GET /  HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a tab for a space": (400, b"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a space in the target": (400, b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a space at the end": (400, b"GET / HTTP/1.1 \r\nHost: x\r\n\r\n"),
    "a space at the beginning": (400, b" GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "bytes in the target": (400, b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n"),
    "control in the target": (400, b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a fragment": (400, b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a relative target": (400, b"GET b HTTP/1.1\r\nHost: x\r\n\r\n"),
    "only a query": (400, b"GET ?a HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a star to GET": (400, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n"),
    "another scheme": (400, b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n"),
    "CONNECT": (501, b"CONNECT h:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 40),
    "blank lines": (400, b"\r\n" * 40),
    "a long word": (400, b"A" * 100),
    "two equal lengths": (400, H + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
    "two lengths": (400, H + b"Content-Length: 1\r\ncontent-length: 2\r\n\r\nx"),
    "a list of lengths": (400, H + b"Content-Length: 1, 1\r\n\r\nx"),
    "a length with a sign": (400, H + b"Content-Length: +1\r\n\r\nx"),
    "a length below zero": (400, H + b"Content-Length: -1\r\n\r\nx"),
    "no length": (400, H + b"Content-Length:\r\n\r\nx"),
    "a length with a space": (400, H + b"Content-Length: 1 2\r\n\r\nx"),
    "a hexadecimal length": (400, H + b"Content-Length: 0x1\r\n\r\nx"),
    "a length in other digits": (400, H + b"Content-Length: \xb2\r\n\r\nx"),
    "a length beyond all": (400, H + b"Content-Length: 99999999999999999999\r\n\r\nx"),
    "coding and length": (
        400,
        H + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    ),
    "length and coding": (
        400,
        H + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "another coding first": (501, H + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "another coding": (501, H + b"Transfer-Encoding: gzip\r\n\r\n"),
    "identity": (501, H + b"Transfer-Encoding: identity\r\n\r\n"),
    "nearly chunked": (501, H + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    "quoted coding": (501, H + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
    "coding with a comma": (501, H + b"Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n"),
    "two codings": (
        400,
        H + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "coding with a space before the colon": (400, H + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "coding behind a vertical tab": (400, H + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n"),
    "coding in HTTP/1.0": (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunk: space first": (400, T + b" 1\r\na\r\n0\r\n\r\n"),
    "chunk: space last": (400, T + b"1 \r\na\r\n0\r\n\r\n"),
    "chunk: LF": (400, T + b"1\na\n0\n\n"),
    "chunk: LF behind data": (400, T + b"1\r\na\n0\r\n\r\n"),
    "chunk: LF in an extension": (400, T + b"1;a\nb\r\na\r\n0\r\n\r\n"),
    "chunk: CR in an extension": (400, T + b"1;a\rb\r\na\r\n0\r\n\r\n"),
    # Known ways to have two servers disagree on where a request ends: CL.TE, TE.CL, TE.TE, and sizes that overflow.
    "CL.TE": (
        400,
        H + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    ),
    "TE.CL": (
        400,
        H
        + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n26\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n\r\n0\r\n\r\n",
    ),
    "CL.0": (400, H + b"Content-Length: 0\r\nContent-Length: 30\r\n\r\n"),
    "TE.TE: in capitals, and another": (
        400,
        H + b"Transfer-Encoding: CHUNKED\r\nTransfer-encoding: x\r\n\r\n0\r\n\r\n",
    ),
    "TE.TE: with a parameter": (501, H + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    "TE.TE: identity behind": (501, H + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "TE.TE: twice in a list": (501, H + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: nothing": (501, H + b"Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    "TE.TE: folded": (400, H + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: folded behind another": (400, H + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: in a value, behind LF": (400, H + b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: in a value, behind CR": (400, H + b"X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: behind NUL": (400, H + b"Transfer-Encoding: \0chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: behind a form feed": (400, H + b"Transfer-Encoding: \x0cchunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: behind a hard space": (501, H + b"Transfer-Encoding: \xa0chunked\r\n\r\n0\r\n\r\n"),
    "TE.TE: with a dotless letter": (400, H + "Transfer-Encod\u0131ng: chunked\r\n\r\n0\r\n\r\n".encode()),
    "TE.TE: space in front": (400, b"POST / HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: x\r\n\r\n"),
    "a length with an underscore": (400, H + b"Content-Length: 1_0\r\n\r\n0123456789"),
    "a length with a plus and a list": (400, H + b"Content-Length: 1,+1\r\n\r\nx"),
    "a length that is a fraction": (400, H + b"Content-Length: 1.0\r\n\r\nx"),
    "a length with an exponent": (400, H + b"Content-Length: 1e1\r\n\r\nx"),
    "a length in quotes": (400, H + b'Content-Length: "1"\r\n\r\nx'),
    "a length with a comment": (400, H + b"Content-Length: 1;a\r\n\r\nx"),
    "a length of 2 to the 64": (400, H + b"Content-Length: 18446744073709551617\r\n\r\nx"),
    "a length of 2 to the 63": (400, H + b"Content-Length: 9223372036854775808\r\n\r\nx"),
    "a length behind a vertical tab": (400, H + b"Content-Length:\x0b1\r\n\r\nx"),
    "a length with a space before the colon": (400, H + b"Content-Length : 1\r\n\r\nx"),
    "a length with an underscore in its name": (
        400,
        b"GET / HTTP/1.1\r\nHost: x\r\nContent Length: 1\r\n\r\nx",
    ),
    "a length in HTTP/1.0 twice": (
        400,
        b"POST / HTTP/1.0\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    ),
    "HTTP/1.10": (400, b"GET / HTTP/1.10\r\nHost: x\r\n\r\n"),
    "HTTP/01.1": (400, b"GET / HTTP/01.1\r\nHost: x\r\n\r\n"),
    "HTTP/1.1 with a comma": (400, b"GET / HTTP/1,1\r\nHost: x\r\n\r\n"),
    "a request line of two": (400, b"GET / HTTP/1.1 GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a header before the request line": (400, b"Host: x\r\nGET / HTTP/1.1\r\n\r\n"),
    "CR alone ends a line": (400, b"GET / HTTP/1.1\rHost: x\r\n\r\n"),
    "LF CR": (400, b"GET / HTTP/1.1\n\rHost: x\n\r\n\r"),
    "a host and a user": (400, b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    "a Host behind a fold": (400, b"GET / HTTP/1.1\r\nHost:\r\n x\r\n\r\n"),
    "a URL with a control character": (400, b"GET http://x/\x7f HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a URL without a path and a space": (400, b"GET http://x y HTTP/1.1\r\nHost: x\r\n\r\n"),
    "chunk: plus": (400, T + b"+1\r\na\r\n0\r\n\r\n"),
    "chunk: 2 to the 64 and more": (400, T + b"10000000000000003\r\nabc\r\n0\r\n\r\n"),
    "chunk: 2 to the 60": (400, T + b"1000000000000000\r\n"),
    "chunk: no digits but an extension": (400, T + b";a\r\n\r\n0\r\n\r\n"),
    "chunk: other digits": (400, T + b"\xb2\r\nab\r\n0\r\n\r\n"),
    "chunk: NUL": (400, T + b"1\0\r\na\r\n0\r\n\r\n"),
    "chunk: tab": (400, T + b"1\t\r\na\r\n0\r\n\r\n"),
    "chunk: a comma": (400, T + b"1,2\r\na\r\n0\r\n\r\n"),
    "chunk: two CR": (400, T + b"1\r\r\na\r\n0\r\n\r\n"),
    "chunk: CR for CRLF behind data": (400, T + b"1\r\na\r0\r\n\r\n"),
    "chunk: data without an end": (400, T + b"1\r\na0\r\n\r\n"),
    "chunk: too short": (400, T + b"3\r\nab\r\n0\r\n\r\n"),
    "chunk: LF in the last line": (400, T + b"1\r\na\r\n0\r\n\n"),
    "chunk: DEL in an extension": (400, T + b"1;\x7f\r\na\r\n0\r\n\r\n"),
    "chunk: endless extensions": (400, T + (b"1;" + b"a" * 4000 + b"\r\nx\r\n") * 20),
    "chunk: the last one with many noughts": (400, T + b"0000000000000000\r\n\r\n"),
    "trailer: NUL": (400, T + b"0\r\nA: \0\r\n\r\n"),
    "trailer: LF": (400, T + b"0\r\nA: b\nC: d\r\n\r\n"),
    "trailer: a space before the colon": (400, T + b"0\r\nA : b\r\n\r\n"),
    "trailer: a request": (400, T + b"0\r\nGET / HTTP/1.1\r\n\r\n"),
    "chunk: too long": (400, T + b"1\r\nab\r\n0\r\n\r\n"),
    "chunk: 0x": (400, T + b"0x1\r\na\r\n0\r\n\r\n"),
    "chunk: sign": (400, T + b"-1\r\n"),
    "chunk: underscore": (400, T + b"1_0\r\n"),
    "chunk: beyond all": (400, T + b"f" * 17 + b"\r\n"),
    "chunk: none": (400, T + b"\r\n"),
    "chunk: endless line": (400, T + b"1;" + b"a" * 5000),
    "trailer without colon": (400, T + b"0\r\nabc\r\n\r\n"),
    "trailer folded": (400, T + b"0\r\nA: b\r\n c\r\n\r\n"),
    "endless trailers": (431, T + b"0\r\n" + b"A: b\r\n" * 20_000),
    "one long header": (431, H + b"A: " + b"b" * 70_000 + b"\r\n\r\n"),
    "one header without end": (431, H + b"A: " + b"b" * 70_000),
    "many headers": (431, H + b"A: b\r\n" * 300 + b"\r\n"),
    "a long target": (431, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
}
