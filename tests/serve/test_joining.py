"""The head of an answer leaves with the first of its body, and never later than the loop's next round."""

from __future__ import annotations

from typing import Any

from skate.serve.ingress.joining import Joining


class Transport:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def is_closing(self) -> bool:
        return "close" in self.calls

    def can_write_eof(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


class Loop:
    """Remembers what it is asked to call."""

    def __init__(self) -> None:
        self.soon: list[Any] = []
        self.later: list[tuple[float, Any]] = []

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def call_later(self, seconds: float, call: Any) -> None:
        self.later.append((seconds, call))


def made() -> tuple[Joining, Transport, Loop]:
    transport, loop = Transport(), Loop()
    return Joining(transport, loop), transport, loop


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
