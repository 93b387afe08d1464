"""A channel over a socket pair: every message arrives whole and in order, and bad bytes end it cleanly."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skate.wire.channel import Channel, ChannelClosed

fuzz = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    st.binary(max_size=300),
)
fields = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(
            st.one_of(st.text(max_size=8), st.binary(max_size=8), st.integers(0, 99)), inner, max_size=4
        ),
    ),
    max_leaves=12,
)
messages = st.lists(
    st.builds(lambda verb, rest: (verb, *rest), st.integers(0, 99), st.lists(fields, max_size=6))
)


@contextlib.contextmanager
def pair() -> Iterator[tuple[Channel, Channel]]:
    left, right = socket.socketpair()
    ends = Channel(left), Channel(right)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()


@contextlib.contextmanager
def bare() -> Iterator[tuple[socket.socket, Channel]]:
    left, right = socket.socketpair()
    reader = Channel(right)
    try:
        yield left, reader
    finally:
        left.close()
        reader.close()


def carry(writer: Channel, reader: Channel) -> list[tuple[Any, ...]]:
    """Flushes and reads by turns until everything has gone over."""
    got = []
    while not writer.flush():
        got += reader.read()
    while True:
        more = reader.read()
        if not more:
            return got
        got += more


def feed(data: bytes, cuts: list[int]) -> list[tuple[Any, ...]]:
    """Feed bytes to a channel in pieces; return its messages, or ChannelClosed if it rejects them."""
    with bare() as (peer, reader):
        got: list[tuple[Any, ...]] = []
        edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
        for start, stop in zip(edges, edges[1:], strict=False):
            if start < stop:
                peer.sendall(data[start:stop])
                got += reader.read()
        return got


@fuzz
@given(messages, st.lists(st.integers(0, 2000), max_size=8))
def test_messages_arrive_whole_and_in_order_however_they_are_cut(sent: list, cuts: list[int]) -> None:
    data = b"".join(map(msgpack.packb, sent))
    assert feed(data, cuts) == sent


@fuzz
@given(messages, st.integers(1, 5))
def test_what_is_pushed_between_flushes_goes_out_as_one_batch(sent: list, every: int) -> None:
    with pair() as (writer, reader):
        got = []
        for number, message in enumerate(sent):
            writer.push(message)
            if number % every == 0:
                got += carry(writer, reader)
        got += carry(writer, reader)
        assert got == sent
        assert not writer.queued
        assert writer.backlog == b""


def test_nothing_goes_out_before_flush() -> None:
    with pair() as (writer, reader):
        writer.push((1, b"x"))
        assert reader.read() == []
        assert len(writer.queued) == 1
        assert writer.flush()
        assert reader.read() == [(1, b"x")]


def test_a_slow_reader_makes_a_backlog_that_keeps_the_order() -> None:
    with pair() as (writer, reader):
        sent = [(i, bytes([i % 256]) * 30_000) for i in range(100)]
        for message in sent:
            writer.push(message)
            writer.flush()
        assert not writer.flush()
        assert len(writer.backlog) + sum(map(len, writer.queued)) > 1 << 20
        assert carry(writer, reader) == sent


def test_who_polls_is_told_that_something_is_left_to_write() -> None:
    backlogs = []
    with pair() as (writer, reader):
        writer.on_backlog = lambda: backlogs.append(len(writer.backlog))
        for i in range(100):
            writer.push((i, bytes(30_000)))
            writer.flush()
        assert len(backlogs) == 1 and backlogs[0]
        assert len(carry(writer, reader)) == 100
        before = len(backlogs)
        writer.push((1, bytes(10 << 20)))
        writer.flush()
        assert len(backlogs) == before + 1 and backlogs[-1]


def test_what_waits_to_be_written_is_not_copied_for_each_message_behind_it() -> None:
    with pair() as (writer, _):
        writer.push((0, bytes(10 << 20)))
        assert not writer.flush()
        waiting = memoryview(writer.backlog).obj
        for i in range(100):
            writer.push((i, b"x"))
            assert not writer.flush()
        assert memoryview(writer.backlog).obj is waiting


def test_a_message_longer_than_one_read_arrives_once_it_is_whole() -> None:
    with pair() as (writer, reader):
        sent = [(1, random.Random(2).randbytes(3 << 20)), (2,)]
        for message in sent:
            writer.push(message)
        assert carry(writer, reader) == sent


@fuzz
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=4))
@example(b"\x92\x01\x81\x80\x01", [])  # a map as the key of a map
@example(b"\x91" * 2000 + b"\x01", [])  # deeper than any message
@example(b"\xc1", [])  # the one byte that msgpack never uses
@example(b"\x92\x01\xd6\xff\xff\xff\xff\xff", [])  # a timestamp
@example(b"\x92\x01\xa2\xff\xfe", [])  # text that is not UTF-8
@example(b"\x92\x01\xc6\xff\xff\xff\xff", [])  # bytes longer than a frame may be
def test_any_bytes_give_messages_or_end_the_channel(data: bytes, cuts: list[int]) -> None:
    try:
        got = feed(data, cuts)
    except ChannelClosed:
        return
    assert all(type(message) is tuple and type(message[0]) is int for message in got)


@fuzz
@given(messages.filter(bool), st.data())
def test_altered_messages_give_messages_or_end_the_channel(sent: list, data: st.DataObject) -> None:
    packed = bytearray(b"".join(map(msgpack.packb, sent)))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        got = feed(bytes(packed), [])
    except ChannelClosed:
        return
    assert all(type(message) is tuple and type(message[0]) is int for message in got)


@fuzz
@given(messages.filter(bool), st.integers(1, 400))
def test_a_stream_cut_off_gives_its_whole_messages_and_then_ends(sent: list, missing: int) -> None:
    packed = b"".join(map(msgpack.packb, sent))
    with bare() as (peer, reader):
        peer.sendall(packed[: max(len(packed) - missing, 0)])
        peer.close()
        got: list[tuple[Any, ...]] = []
        with pytest.raises(ChannelClosed, match="closed the connection"):
            while True:
                got += reader.read()
    assert got == sent[: len(got)]
    assert len(got) < len(sent)


@pytest.mark.parametrize("message", [5, None, "text", (), [], {1: 2}, ("verb", 1), (None,), (True,), ((1,),)])
def test_what_is_no_tuple_led_by_a_number_ends_the_channel(message: object) -> None:
    with pytest.raises(ChannelClosed, match="invalid message"):
        feed(msgpack.packb(message), [])


def test_a_frame_over_the_limit_ends_the_channel() -> None:
    left, right = socket.socketpair()
    reader = Channel(right, frame_bytes_max=1000)
    try:
        left.sendall(msgpack.packb((1, b"x" * 900)))
        assert len(reader.read()) == 1
        left.sendall(msgpack.packb((1, b"x" * 1100)))
        with pytest.raises(ChannelClosed):
            reader.read()
    finally:
        left.close()
        reader.close()


def test_an_array_that_claims_more_than_it_can_hold_costs_no_memory() -> None:
    # A header of five bytes for 16 million fields; the channel must not make room for them before they come.
    left, right = socket.socketpair()
    reader = Channel(right, frame_bytes_max=1 << 20)
    try:
        left.sendall(b"\xdd" + (1 << 24).to_bytes(4, "big"))
        with pytest.raises(ChannelClosed):
            reader.read()
    finally:
        left.close()
        reader.close()


def test_a_peer_that_is_gone_closes_the_writer_and_drops_what_is_left() -> None:
    with pair() as (writer, reader):
        reader.close()
        writer.push((1, b"x"))
        assert writer.flush()
        assert writer.closed
        assert writer.backlog == b""
        with pytest.raises(ChannelClosed):
            writer.read()


def test_a_message_that_cannot_be_packed_leaves_the_others_whole() -> None:
    with pair() as (writer, reader):
        writer.push((1, "before"))
        with pytest.raises((TypeError, ValueError, OverflowError)):
            writer.push((2, {"a": object()}))
        writer.push((3, "after"))
        assert carry(writer, reader) == [(1, "before"), (3, "after")]


def test_the_repr_says_what_is_left_to_write() -> None:
    with pair() as (writer, _):
        writer.push((1,))
        assert repr(writer) == f"<Channel fd={writer.fd} open queued=1 backlog=0>"
        writer.close()
        assert " closed " in repr(writer)
    gc.collect()
