"""Events go from a replica to an ingress through their own socket: complete, in order, for all streams together."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.llm.errors import EngineStopped
from skate.serve.llm import relay
from skate.serve.llm.relay import Destination, Inbox, Outboxes, Sent

try:
    import uvloop
except ImportError:
    uvloop = None
else:
    uvloop.new_event_loop().close()  # libuv keeps a pipe from its first loop to the end of the process


class Handle:
    """A substitute for a handle that answers like a replica, and records the items sent by handle."""

    def __init__(self, make: Callable[[], AsyncGenerator[Any, None]]) -> None:
        self.make = make
        self.outboxes = Outboxes()
        opened.append(self.outboxes)
        self.by_handle: list[Any] = []
        self.cancelled = 0
        self.closed = 0

    def ask(self, destination: Destination) -> Any:
        return Answers(self, self.outboxes.sent(self.make(), destination))


class Answers:
    """The result of a streaming handle call."""

    def __init__(self, handle: Handle, found: AsyncGenerator[Any, None]) -> None:
        self.handle, self.found = handle, found

    def __aiter__(self) -> Answers:
        return self

    async def __anext__(self) -> Any:
        item = await anext(self.found)
        self.handle.by_handle.append(item)
        return item

    def cancel(self) -> None:
        self.handle.cancelled += 1


@asynccontextmanager
async def inbox() -> AsyncIterator[Inbox]:
    """Open the inbox of an ingress; close it and all outboxes at the end."""
    made = Inbox()
    yield made
    await made.close()
    for outboxes in opened:
        await outboxes.close()
    opened.clear()
    # Transports close in the next iterations of the loop.
    for _ in range(3):
        await asyncio.sleep(0)  # a turn of the loop


opened: list[Outboxes] = []


async def text(found: AsyncGenerator[Any, None]) -> str:
    return "".join([each.decode() if isinstance(each, bytes) else each async for each in found])


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.text(min_size=1), max_size=12), min_size=1, max_size=8))
def test_all_events_come_whole_and_in_order(streams: list[list[str]]) -> None:
    async def run() -> None:
        outboxes = Outboxes()
        opened.append(outboxes)

        async def one(box: Inbox, events: list[str]) -> None:
            async def made() -> AsyncGenerator[str, None]:
                for event in events:
                    yield event
                    await asyncio.sleep(0)  # a turn of the loop between two events

            handle = Handle(made)
            handle.outboxes = outboxes
            assert await text(box.answers(handle.ask)) == "".join(events)
            assert handle.by_handle == ([Sent(len(events))] if events else [])
            assert handle.cancelled == 0

        async with inbox() as box:
            await asyncio.gather(*(one(box, events) for events in streams))

    asyncio.run(run())


def test_what_is_no_event_comes_by_handle() -> None:
    async def run() -> None:
        async def made() -> AsyncGenerator[Any, None]:
            yield {"error": 404}

        handle = Handle(made)
        async with inbox() as box:
            assert [each async for each in box.answers(handle.ask)] == [{"error": 404}]

    asyncio.run(run())


def test_events_use_the_socket_in_a_loop_of_uvloop() -> None:
    """Serve's replicas use uvloop where it is installed."""
    if uvloop is None:
        pytest.skip("uvloop is not installed")

    async def run() -> None:
        async with inbox() as made:

            async def events() -> AsyncGenerator[Any, None]:
                yield "data: 1\n\n"
                yield "data: 2\n\n"

            handle = Handle(events)
            assert await text(made.answers(handle.ask)) == "data: 1\n\ndata: 2\n\n"
            assert handle.by_handle == [Sent(2)]

    uvloop.run(run())


def test_an_error_comes_behind_the_events_before_it() -> None:
    async def run() -> None:
        async def made() -> AsyncGenerator[str, None]:
            yield "begun"
            await asyncio.sleep(0.01)  # the event is to be written before the error
            raise RuntimeError("the replica died")

        async with inbox() as box:
            found = box.answers(Handle(made).ask)
            assert await anext(found) == b"begun"
            with pytest.raises(RuntimeError, match="the replica died"):
                await anext(found)

    asyncio.run(run())


def test_without_a_way_events_come_by_handle() -> None:
    async def run() -> None:
        async def made() -> AsyncGenerator[str, None]:
            for event in "abc":
                yield event

        handle = Handle(made)
        ask = handle.ask
        async with inbox() as box:
            found = box.answers(lambda destination: ask(Destination("skate-llm-nobody", destination.stream)))
            assert await text(found) == "abc" and handle.by_handle == ["a", "b", "c"]

    asyncio.run(run())


def test_a_reader_that_leaves_cancels_the_request() -> None:
    async def run() -> None:
        async def made() -> AsyncGenerator[str, None]:
            while True:
                yield "on"
                await asyncio.sleep(0)  # a turn of the loop between two events

        handle = Handle(made)
        async with inbox() as box:
            found = box.answers(handle.ask)
            assert (await anext(found)).startswith(b"on")
            await found.aclose()
            assert handle.cancelled == 1

    asyncio.run(run())


def test_events_that_never_come_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_LATE_S", 0.01)

    async def run() -> None:
        async def made() -> AsyncGenerator[Any, None]:
            yield Sent(2)

        async with inbox() as box:
            with pytest.raises(EngineStopped, match="sent 2 events of the response, but only 0 have arrived"):
                await text(box.answers(Handle(made).ask))

    asyncio.run(run())


def test_other_users_are_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        seen: list[Destination] = []

        async def made() -> AsyncGenerator[str, None]:
            monkeypatch.setattr(relay.os, "getuid", lambda: os.geteuid() + 1)
            # All connections are closed, so only the handle's answer arrives.
            reader, writer = await asyncio.open_unix_connection("\0" + seen[0].address)
            writer.write(relay._HEAD.pack(seen[0].stream, 4) + b"evil")
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
            writer.close()
            monkeypatch.undo()
            yield "good"

        handle = Handle(made)

        def ask(destination: Destination) -> Any:
            seen.append(destination)
            return handle.ask(Destination("skate-llm-nobody", destination.stream))

        async with inbox() as box:
            assert await text(box.answers(ask)) == "good"

    asyncio.run(run())


def test_a_failed_connection_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that was not reachable once is not given up for the replica's life."""
    attempts: list[str] = []
    connect = relay._connected

    async def counted(address: str) -> Any:
        attempts.append(address)
        return await connect(address)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        clock = [0.0]
        monkeypatch.setattr(loop, "time", lambda: now + clock[0])
        outboxes, box = Outboxes(), Inbox()
        for pause in (0.1, 0.2, 0.4):
            assert await outboxes.to(box._address) is None
            clock[0] += pause * 0.9
            assert await outboxes.to(box._address) is None
            clock[0] += pause * 0.2
        assert len(attempts) == 3, "one for each pause that is over"
        server = await box._listen()
        assert await outboxes.to(box._address) is not None
        assert not outboxes._failed
        await outboxes.close()
        server.close()
        await box.close()

    monkeypatch.setattr(relay, "_connected", counted)
    asyncio.run(run())
