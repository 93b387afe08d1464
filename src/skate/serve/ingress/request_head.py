"""Parser of HTTP/1 request heads by RFC 9112, without I/O or a clock: one set of rules for any parser behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

#: In place of a length: the body is chunked.
CHUNKED = -1
END = b"\r\n\r\n"

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_METHOD = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}"
_FIELDS = rb"(?:" + _TOKEN + rb":[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
#: A head of the usual form: a path, 1.0 or 1.1, whole lines, no continuation lines.
_plain = re.compile(_METHOD + rb' /[!-"$-~]* HTTP/1\.[01]\r\n' + _FIELDS + rb"\r\n").fullmatch
_HOST_VALUE = rb"[ \t]*[0-9A-Za-z.:\[\]_~!$&'()*+;=%-]*[ \t]*\r\n"
_LENGTH_NAME = rb"[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]:"
_CODING_NAME = rb"[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]:"
_OTHER_FIELDS = (
    rb"(?:(?!" + _LENGTH_NAME + rb"|" + _CODING_NAME + rb"|[Hh][Oo][Ss][Tt]:|[Uu][Pp][Gg][Rr][Aa][Dd][Ee]:)"
    + _TOKEN + rb":[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*"
)  # fmt: skip
_usual = re.compile(
    _METHOD + rb' /[!-"$-~]* HTTP/1\.[01]\r\n[Hh][Oo][Ss][Tt]:' + _HOST_VALUE + _OTHER_FIELDS
    + rb"(?:" + _LENGTH_NAME + rb"[ \t]*([0-9]{1,18})[ \t]*\r\n" + _OTHER_FIELDS + rb")?\r\n"
).match  # fmt: skip
_request_line = re.compile(rb"(" + _METHOD + rb") ([!-~]+) HTTP/([0-9])\.([0-9])").fullmatch
_fields = re.compile(_FIELDS).fullmatch
#: The fields that determine where a request ends and its host. A name is at the beginning of a line.
_framing = re.compile(
    rb"\r\n([Hh][Oo][Ss][Tt]|[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]"
    rb"|[Tt][Rr][Aa][Nn][Ss][Ff][Ee][Rr]-[Ee][Nn][Cc][Oo][Dd][Ii][Nn][Gg]):[ \t]*([^\r\n]*)"
).findall
_host = re.compile(rb"[0-9A-Za-z.:\[\]_~!$&'()*+;=%-]*").fullmatch
_absolute = re.compile(rb"https?://([^/?#]*)([^#]*)", re.IGNORECASE).fullmatch
_host_line = re.compile(rb"\r\nhost:[^\r\n]*", re.IGNORECASE)
_method = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*").match
_METHOD_BYTES_MAX = 32
_LENGTH_DIGITS_MAX = 18


class BadRequest(Exception):
    """A rejected request, with its status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Limits:
    """Limits of a head."""

    #: Including the blank line at its end.
    head_bytes: int = 64 * 1024
    #: Lines after the first one.
    fields: int = 256


class HeadBuffer:
    """A buffer of received bytes that finds the end of the next head in linear time."""

    __slots__ = ("_searched", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._searched = 0

    def add(self, data: bytes) -> None:
        """Append received data."""
        self.data += data

    def take(self, count: int | None = None) -> bytes:
        """Remove and return the first `count` bytes, or all."""
        data = self.data
        taken = bytes(data[:count]) if count is not None else bytes(data)
        if len(taken) == len(data):
            data.clear()
        else:
            del data[: len(taken)]
        self._searched = 0
        return taken

    def head(self, limits: Limits) -> int:
        """Return the length of the next head with its blank line, or 0 if it is incomplete. Raise BadRequest if it is invalid."""
        data = self.data
        if data and data[0] in b"\r\n":  # blank lines before a request are not part of it
            self._skip()
        found = data.find(END, max(0, self._searched - 3))
        length = found + 4 if found >= 0 else len(data)
        if length > limits.head_bytes:
            raise BadRequest(
                431,
                f"the head of the request is longer than {limits.head_bytes:,} bytes, the limit of "
                "this server",
            )
        if found < 0:
            self._check_partial()
            self._searched = len(data)
            return 0
        return length

    def _check_partial(self) -> None:
        """Reject data that cannot become a head, instead of waiting for its end."""
        data = self.data
        if not data or data == b"\r":
            return
        position = data.find(b"\n", max(0, self._searched - 1))
        while position >= 0:
            if position == 0 or data[position - 1] != 13:
                raise BadRequest(400, "a line of the head ends in LF without CR")
            position = data.find(b"\n", position + 1)
        begun = _method(data)
        word = begun.end() if begun is not None else 0
        if word > _METHOD_BYTES_MAX or (word < len(data) and (not word or data[word] != 32)):
            raise BadRequest(400, "this is not an HTTP request")

    def _skip(self) -> None:
        data = self.data
        blank = 0
        while data.startswith(b"\r\n", blank) and blank < 16:
            blank += 2
        if blank:
            del data[:blank]
            self._searched = 0
        if data[:1] == b"\n" or (data[:1] == b"\r" and (len(data) > 1 or blank >= 16)):
            raise BadRequest(400, "the request does not begin with a request line")


def lacking(data: bytes, limits: Limits) -> int | None:
    """Return how many bytes a request of the most common form still lacks, or None for any other data.

    The common form is a complete head with a path as target, Host first, at most one Content-Length, no other coding and no
    Upgrade, followed only by all or the beginning of a body of that length. Such a request needs no closer inspection.
    """
    found = _usual(data)
    if found is None:
        return None
    end, length = found.end(), found[1]
    left = end - len(data) if length is None else end - len(data) + int(length)
    if left < 0 or end > limits.head_bytes:
        return None
    if end > 4 * limits.fields and data.count(b"\r\n", 0, end) - 2 > limits.fields:
        return None
    return left


def framed(head: bytes, limits: Limits) -> int:
    """Return the length of the body after a complete head, or CHUNKED. Raise BadRequest for an invalid head."""
    if _plain(head) is None:
        _explain(head)
    if len(head) > 4 * limits.fields and head.count(b"\r\n") - 2 > limits.fields:
        raise BadRequest(
            431, f"the request has more than {limits.fields} header lines, the limit of this server"
        )
    framing = _framing(head)
    if len(framing) == 1 and len(framing[0][0]) == 4 and _host(framing[0][1]):
        return 0
    return _body(head, framing)


def _body(head: bytes, framing: list[tuple[bytes, bytes]]) -> int:
    """Return the length of the body after a complete head that has more headers than Host."""
    found: dict[bytes, bytes] = {}
    for name, value in framing:
        name = name.lower()
        if name in found:
            raise BadRequest(400, f"the request has more than one {name.decode()} header")
        found[name] = value.rstrip(b" \t")
    newer = not head[: head.find(b"\r\n")].endswith(b"1.0")
    host = found.get(b"host")
    if host is None and newer:
        raise BadRequest(400, "the request has no Host header, which HTTP/1.1 requires")
    if host is not None and not _host(host):
        raise BadRequest(400, "the Host header of the request is invalid")
    length = found.get(b"content-length")
    coding = found.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadRequest(400, "the request has both Content-Length and Transfer-Encoding")
        if not newer:
            raise BadRequest(400, "Transfer-Encoding is not allowed in HTTP/1.0")
        if coding.lower() != b"chunked":
            raise BadRequest(501, "the only supported Transfer-Encoding is chunked")
        return CHUNKED
    if length is None:
        return 0
    if not length.isdigit() or len(length) > _LENGTH_DIGITS_MAX:
        raise BadRequest(400, "the Content-Length header of the request is not a number of bytes")
    return int(length)


def _explain(head: bytes) -> None:
    """Raise the error of an unusual head, or return if it is valid, with a URL or `*` as its target."""
    line, _, rest = head.partition(b"\r\n")
    words = _request_line(line)
    if words is None:
        raise BadRequest(400, "the request line is not METHOD SP target SP HTTP/1.1")
    if words[3] != b"1" or words[4] not in b"01":
        raise BadRequest(505, "this server supports HTTP/1.0 and HTTP/1.1")
    if _fields(rest[:-2]) is None:
        if b"\r\n " in head or b"\r\n\t" in head:
            raise BadRequest(400, "a header continues on the next line, which HTTP/1.1 forbids")
        if head.count(b"\n") != head.count(b"\r\n") or head.count(b"\r") != head.count(b"\r\n"):
            raise BadRequest(400, "a line of the head ends in CR or LF alone")
        raise BadRequest(400, "a header line must be name, colon, value")
    if words[1] == b"CONNECT":
        raise BadRequest(501, "CONNECT is for proxies, but this server is not a proxy")
    target = words[2]
    url = _absolute(target)
    whole = target[:1] == b"/" or url or (target == b"*" and words[1] == b"OPTIONS")
    if not whole or b"#" in target or (url and not _host(url[1].rpartition(b"@")[2])):
        raise BadRequest(400, "the target of the request is neither a path nor a URL")


def is_absolute(head: bytes) -> bool:
    """Return True if the target is a complete URL, as in requests to a proxy."""
    target = head[head.find(b" ") + 1 :]
    return target[:1] != b"/" and target[:1] != b"*"


def with_path(head: bytes) -> bytes:
    """Return a checked head with its URL split into path and Host, as parsers and applications expect."""
    method, target, rest = head.split(b" ", 2)
    found = _absolute(target)
    assert found is not None, "framed() has let it pass"
    path = found[2] if found[2][:1] == b"/" else b"/" + found[2]
    host = b"\r\nHost: " + found[1].rpartition(b"@")[2]
    line, separator, fields = rest.partition(b"\r\n")
    changed = _host_line.sub(lambda _: host, separator + fields)
    return b" ".join((method, path, line)) + changed


def path_of(head: bytes) -> str:
    """Return the requested path of a checked head, decoded as applications see it."""
    target = head[head.find(b" ") + 1 : head.find(b" ", head.find(b" ") + 1)]
    path = target.partition(b"?")[0].decode("latin-1")
    return unquote(path) if "%" in path else path
