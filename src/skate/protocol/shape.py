"""Validation of messages from a socket: they are checked against the records before they are processed."""

from __future__ import annotations

from typing import Any

from skate.protocol import driver_messages
from skate.protocol.check import Checks, entries_check, message_check
from skate.protocol.directory import FROM_CLIENTS, FROM_WORKERS
from skate.protocol.fields import Greeting
from skate.protocol.values import INLINE, OK

Message = tuple[Any, ...]

_RECORDS = FROM_CLIENTS | FROM_WORKERS
_FROM_CLIENTS = Checks(lambda tag: message_check(FROM_CLIENTS[tag]))
_FROM_WORKERS = Checks(lambda tag: message_check(_RECORDS[tag]))
_MESSAGES, _ENTRIES = Checks(message_check), Checks(entries_check)


def is_shown(x: Message) -> bool:
    """True for a valid SHOWN."""
    return _MESSAGES[driver_messages.Shown](x)


def is_leave(x: Message) -> bool:
    """True for a valid LEAVE."""
    return _MESSAGES[driver_messages.Leave](x)


def is_plain_answer(x: Message) -> bool:
    """True for the answer of most tasks, one small value without refs, which needs no further check."""
    return (
        len(x) == 6
        and x[2] == OK
        and type(x[3]) is tuple
        and len(x[3]) == 1
        and type(x[3][0]) is tuple
        and len(x[3][0]) == 3
        and x[3][0][0] == INLINE
        and type(x[3][0][1]) is bytes
        and x[3][0][2] == ()
        and type(x[1]) is bytes
        and type(x[4]) is int
        and type(x[5]) is bool
    )


def shape_refusal(message: Message, of_worker: bool) -> str:
    """Return why a client may not send this message, regardless of the node's state; empty if it may."""
    tag = message[0]
    try:
        check = (_FROM_WORKERS if of_worker else _FROM_CLIENTS)[tag]
    except KeyError:
        return f"message {tag} is not one that a {'worker' if of_worker else 'driver'} sends"
    if not check(message):
        return f"the fields of {_RECORDS[tag].__name__} have other types: {message[1:]!r:.200}"
    return ""


def greeting_refusal(fields: Any) -> str:
    """Return why this is not a valid first message of a driver; empty if it is."""
    return "" if _ENTRIES[Greeting](fields) else f"the fields of ATTACH have other types: {fields!r:.300}"
