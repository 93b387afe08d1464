"""A response sent in one piece has the bytes that uvicorn would send, and takes uvicorn's way whenever it has to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("httptools")
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from skate.serve.ingress import exchange as exchange_module
from skate.serve.ingress.exchange import Exchange


class Transport:
    """A transport that records, as the buffer of a connection does."""

    def __init__(self) -> None:
        self.sent = b""
        self.writes = 0
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data
        self.writes += 1

    def close(self) -> None:
        self.closed = True

    def hold(self, soon: bool) -> None: ...

    def flush(self) -> None: ...

    def is_closing(self) -> bool:
        return False


async def answered(body: bytes, date: bytes, **state: Any) -> tuple[bytes, bool, int, RequestResponseCycle]:
    """Answer one request; return what was sent, True if the connection closed, and the number of completions."""
    ended: list[None] = []
    transport: Any = Transport()
    cycle = RequestResponseCycle(
        scope={"method": state.pop("method", "GET")},  # type: ignore[typeddict-item]
        transport=transport,
        flow=FlowControl(transport),
        logger=None,  # type: ignore[arg-type]
        access_logger=None,  # type: ignore[arg-type]
        access_log=False,
        default_headers=[(b"date", date), (b"x-set", b"always")],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=state.pop("keep_alive", True),
        on_response=lambda: ended.append(None),
    )
    for name, value in state.items():
        setattr(cycle, name, value)
    exchange = Exchange(cycle.receive, cycle.send, "id-\xe9", None)  # type: ignore[arg-type]
    await exchange.answer(200, b"text/plain", body)
    return transport.sent, transport.closed, len(ended), cycle


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("body", [b"", b"hello", b"x" * 100_000])
def test_the_bytes_are_those_of_uvicorn(
    monkeypatch: pytest.MonkeyPatch, body: bytes, keep_alive: bool, method: str
) -> None:
    for date in (b"now", b"later"):  # the headers of each second are their own
        ours = asyncio.run(answered(body, date, method=method, keep_alive=keep_alive))
        with monkeypatch.context() as patched:
            patched.setattr(exchange_module, "send_whole", lambda *_: False)
            theirs = asyncio.run(answered(body, date, method=method, keep_alive=keep_alive))
        assert ours[:3] == theirs[:3]
        assert date in ours[0]
        assert ours[3].response_complete
        assert ours[3].message_event.is_set()


def test_a_short_response_is_one_write() -> None:
    cycle = asyncio.run(answered(b"hello", b"now"))[3]
    assert cycle.transport.writes == 1  # type: ignore[attr-defined]


def test_nothing_is_sent_to_a_client_that_has_left() -> None:
    sent, _, ended, _ = asyncio.run(answered(b"hello", b"now", disconnected=True))
    assert (sent, ended) == (b"", 0)


def test_a_response_waits_until_the_client_has_read_the_previous_one() -> None:
    async def waits() -> None:
        made: Any = asyncio.ensure_future(answered(b"hello", b"now", flow=flow))
        await asyncio.sleep(0)
        assert not made.done()
        flow.resume_writing()
        assert b"hello" in (await made)[0]

    flow = FlowControl(Transport())  # type: ignore[arg-type]
    flow.pause_writing()
    asyncio.run(waits())
