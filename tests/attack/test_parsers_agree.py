"""Both parsers agree with the gate on all data that it passes, and rejections do not depend on how data is split."""

from __future__ import annotations

from typing import Any

import h11
import httptools
import pytest
from attack.corpus import REFUSED, served
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skate.serve.ingress.chunked_body import ChunkedBody
from skate.serve.ingress.request_head import (
    CHUNKED,
    BadRequest,
    HeadBuffer,
    Limits,
    framed,
    is_absolute,
    lacking,
    path_of,
    with_path,
)

LIMITS = Limits()
Read = list[tuple[bytes, bytes, bytes]]  # method, target, body


def gated(parts: list[bytes]) -> tuple[Read, bytes, int]:
    """Return the requests that pass the gate, the bytes for the parser, and the status of a rejection, or 0."""
    rest = HeadBuffer()
    passed, forwarded = [], b""
    left, chunks = 0, None
    head = body = b""
    try:
        for part in parts:
            rest.add(part)
            while rest.data:
                if chunks is not None:
                    data = rest.take()
                    out, used = chunks.feed(data)
                    rest.add(data[used:])
                    forwarded += out
                    body += out
                    if chunks.done:
                        chunks = None
                elif left:
                    data = rest.take(left)
                    left -= len(data)
                    forwarded += data
                    body += data
                else:
                    size = rest.head(LIMITS)
                    if not size:
                        break
                    head = rest.take(size)
                    length = framed(head, LIMITS)
                    left = lacking(head, LIMITS)
                    assert left is None or left == length, "the quick way and the other agree on every head"
                    if left:
                        assert lacking(head + b"x" * (length - 1), LIMITS) == 1
                        assert lacking(head + b"x" * length, LIMITS) == 0
                        assert lacking(head + b"x" * (length + 1), LIMITS) is None
                    if is_absolute(head):
                        head = with_path(head)
                    forwarded += head
                    body = b""
                    left = max(0, length)
                    chunks = ChunkedBody(LIMITS.head_bytes) if length == CHUNKED else None
                if not left and chunks is None:
                    method, target = head.split(b" ", 2)[:2]
                    passed.append((method, target, body))
    except BadRequest as bad:
        return passed, forwarded, bad.status
    return passed, forwarded, 0


class Callbacks:
    def __init__(self) -> None:
        self.read: Read = []
        self.target = self.body = b""
        self.parser: Any = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self.target = self.body = b""

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.read.append((self.parser.get_method(), self.target, self.body))


def by_httptools(data: bytes) -> Read | None:
    """Parse with httptools; None if it rejects something."""
    found = Callbacks()
    found.parser.set_dangerous_leniencies(lenient_data_after_close=True)
    try:
        found.parser.feed_data(data)
    except httptools.HttpParserError:
        return None
    except httptools.HttpParserUpgrade:
        pass
    return found.read


def by_h11(data: bytes) -> Read | None:
    """Parse with h11; None if it rejects something."""
    found: Read = []
    rest = data
    while rest:
        connection = h11.Connection(h11.SERVER, 1 << 20)
        request, body = None, b""
        connection.receive_data(rest)
        try:
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return found
        except h11.RemoteProtocolError:
            return None
        assert request is not None
        found.append((request.method, request.target, body))
        rest = connection.trailing_data[0]
    return found


def same(gate: Read, other: Read | None) -> None:
    assert other is not None
    for (method, target, body), (their_method, their_target, their_body) in zip(gate, other, strict=False):
        assert (method, target) == (their_method, their_target)
        if body[-5:] == b"0\r\n\r\n" and body != their_body:  # the gate's chunks, as it writes them
            body = decoded(body)
        assert body == their_body


def decoded(data: bytes) -> bytes:
    found = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if not (count := int(size, 16)):
            return found
        found, data = found + data[:count], data[count + 2 :]


@pytest.mark.parametrize("request_", [*served(), *served("/b")], ids=lambda each: f"{each.name} {each.path}")
def test_what_is_served_is_read_alike(request_: Any) -> None:
    passed, forwarded, status = gated([request_.data])
    assert status == 0
    assert len(passed) == 1
    same(passed, by_h11(forwarded))
    same(passed, by_httptools(forwarded))
    assert path_of(forwarded) == request_.path


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused_is_refused_before_any_parser_has_all_of_it(name: str) -> None:
    status, data = REFUSED[name]
    passed, _, got = gated([data])
    assert (passed, got) == ([], status)


TOKENS = [
    b"GET", b"POST", b"OPTIONS", b"get", b" ", b"  ", b"\t", b"/", b"/a%20b?c=d#e", b"*", b"http://h/x?y",
    b"HTTP/1.1", b"HTTP/1.0",
    b"HTTP/2.0", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Host: x\r\n", b"host:y\r\n", b"Host : x\r\n", b"Content-Length: 3\r\n",
    b"Content-Length: 3, 3\r\n", b"content-length:\t0\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip\r\n",
    b"transfer-encoding:chunked \r\n", b" folded\r\n", b"A: b\r\n", b"A:\r\n", b": b\r\n", b"A\x00: b\r\n", b"A: \xff\r\n",
    b"Content-Length: +3\r\n", b"Content-Length: 0003\r\n", b"Content-Length: 1_0\r\n", b"Content-Length:3,\r\n",
    b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b"X: \rTransfer-Encoding: chunked\r\n",
    b"+3\r\nabc\r\n", b"3 ;a\r\nabc\r\n", b"3_0\r\n", b"0x3\r\nabc\r\n", b"00000000003\r\nabc\r\n", b"3\r\nabc", b"3\nabc\n",
    b"0\r\nContent-Length: 3\r\n\r\n", b"Connection: content-length\r\n", b"Upgrade: h2c\r\n", b"\x00", b"\r\r\n",
    b"abc", b"3\r\nabc\r\n", b"0\r\n\r\n", b"0\r\nA: b\r\n\r\n", b"3;e=f\r\nabc\r\n", b"ffffffffffffffff\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"Expect: 100-continue\r\n", b"Connection: close\r\n",
]  # fmt: skip


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    cut = sorted({each % (len(data) + 1) for each in places})
    return [data[begin:end] for begin, end in zip([0, *cut], [*cut, len(data)], strict=True)]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=14), st.lists(st.integers(0, 1000), max_size=5))
@example([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"] * 3, [5, 50])
@example([TOKENS[-4], b"3\r\nabc\r\n", b"0\r\n\r\n", TOKENS[-6]], [40, 60, 61])
def test_made_up_requests_are_read_alike_however_they_are_cut(tokens: list[bytes], places: list[int]) -> None:
    data = b"".join(tokens)
    whole = gated([data])
    cut = gated(pieces(data, places))
    # The position of a rejection may differ between splits, but the data passed before it may not.
    assert [(method, target) for method, target, _ in whole[0]] == [
        (method, target) for method, target, _ in cut[0]
    ]
    assert whole[2] == cut[2]
    known = {b"GET", b"POST", b"OPTIONS"}
    if whole[0] and all(method in known for method, _, _ in whole[0]) and b"Connection" not in data:
        complete = whole[1]
        same(whole[0], by_httptools(complete))
        if b"HTTP/1.0" not in data:
            same(whole[0], by_h11(complete))


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 1000), max_size=4))
def test_any_bytes_are_a_refusal_or_wait_for_more(data: bytes, places: list[int]) -> None:
    for head in (b"", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"):
        whole = gated([head + data])
        assert gated(pieces(head + data, places))[2] == whole[2]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.integers(0, 2000), max_size=6))
def test_a_chunked_body_carries_what_was_put_into_it(parts: list[bytes], places: list[int]) -> None:
    wire = b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"
    body = ChunkedBody(1000)
    out = b""
    for piece in pieces(wire, places):
        made, used = body.feed(piece)
        assert used == len(piece)
        out += made
    assert body.done
    assert decoded(out) == b"".join(parts)
    assert body.feed(b"GET / HTTP/1.1")[1] == 0
