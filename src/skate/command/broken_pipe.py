"""Closed pipes, as in `skate list tasks | head -1`: the command ends quietly, as other tools do."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable

#: The status that a shell shows for a tool that SIGPIPE has ended.
STATUS = 128 + 13


def run_quietly(command: Callable[[], int]) -> int:
    """Run a command and write out what it has printed. Return its status, or `STATUS` if its output is not
    read.
    """
    try:
        try:
            status = command()
        finally:  # also when argparse has printed a help text and exits
            sys.stdout.flush()
    except BrokenPipeError:
        if not is_unread():
            raise
        # The interpreter flushes again when it exits, and would report an error.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return STATUS
    return status


def is_unread() -> bool:
    """Return True if standard output is a pipe whose reader has ended."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # closed, or not a file
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
