"""The answer to a request does not depend on how it is cut, or on which processes its connection is passed to."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from attack.connections import PROTOCOLS, Processes, Wire, settle, statuses, without_sockets
from attack.corpus import REFUSED, Sent, served

ROUTES = {"one": {"a": "/"}, "two": {"a": "/", "b": "/b"}}
both_parsers = pytest.mark.parametrize("parser", list(PROTOCOLS))


@pytest.fixture(autouse=True)
def nothing_raised(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if an error was logged, as for any exception in an application or protocol."""
    yield
    assert [each.getMessage() for each in caplog.get_records("call") if each.levelno >= logging.ERROR] == []


async def answered(wire: Wire, count: int) -> list[tuple[int, bytes]]:
    """Wait for `count` answers and return them."""
    for _ in range(200 + 2 * count):
        await settle()
        if len(found := statuses(wire.answers)) >= count or wire.ended:
            return found
    raise AssertionError(f"{bytes(wire.answers)!r} are not {count} answers")


def expected(request: Sent, apps: str) -> bytes:
    app = "b" if apps == "two" and request.path.startswith("/b") else "a"
    return request.echo(app)


@both_parsers
@pytest.mark.parametrize("apps", list(ROUTES))
def test_a_request_cut_anywhere_is_answered_as_if_whole(
    parser: str, apps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New and kept connections, accepted by each process: more than 3,500 requests for each parameter."""

    async def main() -> int:
        cut = 0
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES[apps])
            current.append(processes)
            for request in [*served(), *served("/b")]:
                want = [(200, expected(request, apps))]
                for place, kept in itertools.product(range(1, len(request.data)), (False, True)):
                    wire = processes.open("ab"[place % len(ROUTES[apps])])
                    if kept:
                        wire.send(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
                        assert len(await answered(wire, 1)) == 1
                        wire.answers.clear()
                    wire.send(request.data[:place])
                    await settle(1)
                    wire.send(request.data[place:])
                    got = await answered(wire, 1)
                    assert got == want, (request.name, place)
                    assert wire.hops <= 2
                    cut += 1
            await processes.close()
        return cut

    assert asyncio.run(main()) > 3_500


@both_parsers
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_small_segments_on_two_applications(parser: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES["two"])
            current.append(processes)
            for request in [*served(), *served("/b")]:
                wire = processes.open("a")
                for begin in range(0, len(request.data), size):
                    wire.send(request.data[begin : begin + size])
                    await settle(1)
                assert await answered(wire, 1) == [(200, expected(request, "two"))], request.name
            await processes.close()

    asyncio.run(main())


@both_parsers
def test_pipelined_requests_are_answered_in_order_by_the_application_they_are_for(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests are sent in one piece, and cut at every twentieth byte."""

    async def main() -> None:
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES["two"])
            current.append(processes)
            requests = [each for pair in zip(served(), served("/b"), strict=True) for each in pair]
            requests = [each for each in requests if each.name != "old"]  # its connection ends with it
            data = b"".join(each.data for each in requests)
            want = [(200, expected(each, "two")) for each in requests]
            for place in [0, *range(1, len(data), 20)]:
                wire = processes.open("a")
                if place:
                    wire.send(data[:place])
                    await settle(1)
                await deliver(wire, data[place:])
                assert await answered(wire, len(want)) == want, place
            await processes.close()

    asyncio.run(main())


async def deliver(wire: Wire, data: bytes) -> None:
    """Send data once the connection is not being passed on, because only its next process reads it."""
    for _ in range(100):
        if not wire.protocol.transport.is_closing() or wire.ended:
            break
        await settle(1)
    wire.send(data)


@both_parsers
def test_refused_requests_whole_and_cut_anywhere(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES["one"])
            current.append(processes)
            for name, (status, data) in REFUSED.items():
                places = range(1, len(data)) if len(data) < 300 else (1, 40, len(data) // 2, len(data) - 1)
                for place in (0, *places):
                    wire = processes.open("a")
                    for part in (data[:place], data[place:]) if place else (data,):
                        wire.send(part)
                        await settle(1)
                    got = await answered(wire, 1)
                    assert [code for code, _ in got] == [status], (name, place, got)
                    assert wire.protocol.transport.discards or wire.ended, name
            await processes.close()

    asyncio.run(main())


@both_parsers
def test_nothing_behind_a_refused_request_is_served(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES["one"])
            current.append(processes)
            behind = b"GET /behind HTTP/1.1\r\nHost: x\r\n\r\n"
            for (name, (status, data)), later in itertools.product(REFUSED.items(), (False, True)):
                wire = processes.open("a")
                wire.send(data if later else data + behind)
                await settle()
                if later:
                    wire.send(behind)
                assert [code for code, _ in await answered(wire, 1)] == [status], name
                await settle()
                assert b"/behind" not in wire.answers, name
            await processes.close()

    asyncio.run(main())


@both_parsers
def test_half_a_head_goes_along_when_a_process_leaves(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rolling update at every byte of a head, on new and on kept connections."""

    async def main() -> None:
        request = served("/x")[1]
        for place in range(len(request.data)):
            with without_sockets(monkeypatch) as current:
                processes = Processes(parser, ROUTES["two"])
                current.append(processes)
                # Both serve "/" here: one leaves, and the other stays.
                old, new = processes.servings["a"], processes.servings["b"]
                new.dispatcher.own = ("a", "a")
                processes.lines = {("a", "a"): processes.lines["a", "a"]}
                line = processes.lines["a", "a"]
                processes.lines["a", "a"] = type(line)((*line.entries, processes.places["b"]), 100, -1)
                processes.routes = processes.routes[-1:]
                processes.publish()
                wire = processes.open("a")
                if place % 2:
                    wire.send(b"GET /first HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert len(await answered(wire, 1)) == 1
                    wire.answers.clear()
                if place:
                    wire.send(request.data[:place])
                old.stop_accepting()
                await settle()
                assert wire.hops == 1
                wire.send(request.data[place:])
                assert await answered(wire, 1) == [(200, request.echo("b"))], place
                await processes.close()

    asyncio.run(main())


@both_parsers
def test_a_body_stays_where_its_head_was_served(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        request = next(each for each in served() if each.name == "chunked")
        head = request.data.index(b"\r\n\r\n") + 4
        for place in range(head, len(request.data)):
            with without_sockets(monkeypatch) as current:
                processes = Processes(parser, ROUTES["one"])
                current.append(processes)
                wire = processes.open("a")
                wire.send(request.data[:place])
                processes.servings["a"].stop_accepting()
                await settle()
                wire.send(request.data[place:])
                assert await answered(wire, 1) == [(200, request.echo("a"))]
                assert wire.hops == 0
                await processes.close()

    asyncio.run(main())


def reading(wire: Wire) -> Any:
    return wire.protocol.transport._transport


@both_parsers
def test_reading_stops_while_much_is_pipelined_and_goes_on(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        with without_sockets(monkeypatch) as current:
            processes = Processes(parser, ROUTES["one"])
            current.append(processes)
            one = b"GET /" + b"x" * 200 + b" HTTP/1.1\r\nHost: x\r\n\r\n"
            wire = processes.open("a")
            wire.send(one * 1000)
            assert reading(wire).paused
            assert len(await answered(wire, 1000)) == 1000
            await settle()
            assert not reading(wire).paused
            await processes.close()

    asyncio.run(main())
