"""The head of a response is sent together with the first part of its body, at the latest in the loop's next iteration."""

from __future__ import annotations

from typing import Any

from skate.serve.ingress.write_buffer import WriteBuffer


class Transport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.calls: list[str] = []
        self.unsent = 0

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def is_closing(self) -> bool:
        return "close" in self.calls

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


class Loop:
    """A loop that records its scheduled calls."""

    def __init__(self) -> None:
        self.soon: list[Any] = []
        self.later: list[tuple[float, Any]] = []
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def run_later(self) -> None:
        """Advance the clock to the next scheduled call, and run it."""
        seconds, call = self.later.pop(0)
        self.now += seconds
        call()

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def call_later(self, seconds: float, call: Any, *arguments: Any) -> None:
        self.later.append((seconds, lambda: call(*arguments)))


def made(ahead: bool = False, unread_seconds: float | None = None) -> tuple[WriteBuffer, Transport, Loop]:
    transport, loop = Transport(), Loop()
    return WriteBuffer(transport, loop, lambda: ahead, unread_seconds, [0], 0), transport, loop


def test_head_and_body_are_one_write() -> None:
    joining, transport, loop = made()
    joining.hold(False)
    joining.write(b"head")
    assert transport.sent == []
    joining.write(b"body")
    joining.write(b"")
    joining.write(b"more")
    joining.flush()
    assert (transport.sent, loop.soon) == ([b"headbody", b"more"], [])


def test_a_head_alone_leaves_when_the_loop_comes_round() -> None:
    joining, transport, loop = made()
    joining.hold(True)
    joining.write(b"head")
    (flush,) = loop.soon
    flush()
    assert transport.sent == [b"head"]
    joining.write(b"body")
    flush()
    assert transport.sent == [b"head", b"body"]


def test_an_empty_body_leaves_the_head_to_the_flush() -> None:
    joining, transport, _ = made()
    joining.hold(False)
    joining.write(b"head")
    joining.write(b"")
    assert transport.sent == []
    joining.flush()
    assert transport.sent == [b"head"]


def test_what_is_not_held_passes_at_once() -> None:
    joining, transport, loop = made()
    joining.write(b"one")
    joining.write(b"two")
    assert (transport.sent, loop.soon) == ([b"one", b"two"], [])


def test_closing_sends_what_is_held_first() -> None:
    joining, transport, _ = made()
    joining.hold(True)
    joining.write(b"head")
    joining.close()
    assert (transport.sent, transport.calls) == ([b"head"], ["close"])
    assert not joining.discards


def test_lingering_says_that_nothing_more_comes_and_closes_later() -> None:
    joining, transport, loop = made()
    joining.linger()
    joining.hold(False)
    joining.write(b"head")
    joining.close()
    assert transport.sent == [b"head"]
    assert transport.calls == ["write_eof", "resume_reading"]
    assert joining.discards
    ((seconds, close),) = loop.later
    assert 0 < seconds <= 5
    close()
    assert transport.calls[-1] == "close"
    joining.close()  # a second time is harmless
    assert transport.calls[-1] == "close"


def test_lingering_goes_on_as_long_as_something_comes_but_not_for_ever() -> None:
    joining, transport, loop = made(ahead=True)
    joining.close()
    assert joining.discards
    for _ in range(3):
        joining.came = True
        loop.run_later()
        assert "close" not in transport.calls
    loop.run_later()
    assert "close" in transport.calls
    joining, transport, loop = made(ahead=True)
    joining.close()
    while "close" not in transport.calls:
        joining.came = True
        loop.run_later()
    assert 10 < loop.now <= 30


def test_a_last_answer_that_nobody_reads_does_not_keep_the_connection() -> None:
    joining, transport, loop = made(unread_seconds=7)
    transport.unsent = 10
    joining.close()
    assert [seconds for seconds, _ in loop.later] == [7]
    transport.unsent = 5  # the client reads a little
    loop.run_later()
    assert "abort" not in transport.calls
    loop.run_later()
    assert transport.calls[-1] == "abort"
    joining, transport, loop = made(unread_seconds=7)
    transport.unsent = 10
    joining.close()
    transport.unsent = 0
    loop.run_later()
    assert "abort" not in transport.calls and not loop.later
