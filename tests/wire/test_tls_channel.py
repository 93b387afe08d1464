"""A channel over TLS: what is decrypted is read although no poller shows it, and a full socket takes the rest later."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator

import pytest

from skate.wire.channel import Channel, ChannelClosed
from skate.wire.tls_channel import TLSChannel, open_channel
from tests.fabric.certificates import tls_pair


@contextlib.contextmanager
def pair() -> Iterator[tuple[Channel, Channel]]:
    ends = [open_channel(sock) for sock in tls_pair()]
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.close()


def is_readable(channel: Channel, seconds: float = 5.0) -> bool:
    return bool(select.select([channel.fd], [], [], seconds)[0])


@pytest.mark.parametrize("size", [1, 5000, 10_000, 16_384, 70_000, 3_000_000])
def test_all_that_the_poller_does_not_show_is_read(size: int) -> None:
    """A reader that polls before each read must find everything, whatever the sizes of the records."""
    with pair() as (one, other):
        total = max(3, 6_000_000 // max(size, 2000))
        for number in range(total):
            one.push((number, bytes(size)))
        got: list[int] = []
        done = one.flush()
        while len(got) < total:
            assert is_readable(other), f"{len(got)} of {total} came, and the poller shows nothing"
            messages = other.read()
            assert all(len(message[1]) == size for message in messages)
            got += [message[0] for message in messages]
            done = done or one.flush()
        assert done and got == list(range(total))


def test_both_directions_at_once() -> None:
    with pair() as (one, other):
        ends = {one: other, other: one}
        for end in ends:
            for number in range(50):
                end.push((number, bytes(100_000)))
        got: dict[Channel, list[int]] = {one: [], other: []}
        while any(len(each) < 50 for each in got.values()):
            for end in ends:
                end.flush()
                if is_readable(end, 0.05):
                    got[end] += [message[0] for message in end.read()]
        assert got[one] == got[other] == list(range(50))


def test_messages_before_the_end_are_not_lost() -> None:
    with pair() as (one, other):
        one.push((1, b"x" * 40_000))
        one.flush()
        assert (
            not one.read()
        )  # the session tickets: a socket that is closed with unread bytes resets the connection
        one.close()
        got: list[object] = []
        with pytest.raises(ChannelClosed):
            while is_readable(other):
                got += other.read()
        assert len(got) == 1


def test_a_write_to_one_that_has_ended_is_dropped() -> None:
    with pair() as (one, other):
        other.close()
        while not one.closed:
            one.push((1, bytes(1 << 20)))
            one.flush()
        assert not one.backlog


def test_a_plain_socket_has_the_plain_channel() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = open_channel(ours)
        assert type(channel) is Channel
        channel.close()
    with pair() as (one, _):
        assert type(one) is TLSChannel
