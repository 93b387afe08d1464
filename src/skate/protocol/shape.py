"""Shape of messages that arrive over a socket: checked against the records before anybody acts on them."""

from __future__ import annotations

from typing import Any

from skate.protocol.check import entries_check, message_check
from skate.protocol.schema import OF_CLIENTS, OF_WORKERS, Greeting, Leave, Printed

Message = tuple[Any, ...]

_FROM_CLIENTS = {tag: message_check(record) for tag, record in OF_CLIENTS.items()}
_FROM_WORKERS = _FROM_CLIENTS | {tag: message_check(record) for tag, record in OF_WORKERS.items()}
_GREETING = entries_check(Greeting)
is_printed, is_leave = message_check(Printed), message_check(Leave)
_NAMES = {tag: record.__name__ for tag, record in (OF_CLIENTS | OF_WORKERS).items()}


def is_plain_answer(x: Message) -> bool:
    """True for the answer that most tasks end with, one small value without refs: it needs no further check."""
    return (
        len(x) == 6
        and x[2] == 0
        and type(x[3]) is tuple
        and len(x[3]) == 1
        and type(x[3][0]) is tuple
        and len(x[3][0]) == 3
        and x[3][0][0] == 1
        and type(x[3][0][1]) is bytes
        and x[3][0][2] == ()
        and type(x[1]) is bytes
        and type(x[4]) is int
        and type(x[5]) is bool
    )


def shape_refusal(message: Message, of_worker: bool) -> str:
    """Return why this is no message that a client may send, whatever the node knows; empty if it is one."""
    tag = message[0]
    check = (_FROM_WORKERS if of_worker else _FROM_CLIENTS).get(tag)
    if check is None:
        return f"message {tag} is not one that a {'worker' if of_worker else 'driver'} sends"
    if not check(message):
        return f"the fields of {_NAMES[tag]} have other types: {message[1:]!r:.200}"
    return ""


def greeting_refusal(fields: Any) -> str:
    """Return why these are not the first words of a driver; empty if they are."""
    return "" if _GREETING(fields) else f"the fields of ATTACH have other types: {fields!r:.300}"
