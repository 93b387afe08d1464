"""The birth of a zygote: one process started, with a socket to it.

It is apart from what then uses it, and imports little, because `init` starts the zygote before anything else: while the driver
loads the rest of the node, the zygote loads what workers need, on another CPU.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys

from skate.wire.limits import LimitReached, no_more_processes

CONTROL_FD = 63
PYTHON = [sys.executable]

_early: list[tuple[socket.socket, int]] = []


def start(
    python: list[str], environment: dict[str, str], output: tuple[int, ...] = ()
) -> tuple[socket.socket, int]:
    """Start a zygote with an interpreter: our end of its control socket, and its pid.

    `output` are descriptors for its stdout and stderr; without them it has those of this process.
    """
    occupy_standard_descriptors()
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"import sys; sys.path.insert(0, {source!r}); from skate.node.worker.zygote import main; main()"
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote_script.py")
    argv = [*python, "-c", code] if python == PYTHON else [*python, script]
    # Forked workers would otherwise repeat what an interpreter started unbuffered does to its own output.
    environment = {"PYTHONUNBUFFERED": "", **environment}
    try:
        pid = os.posix_spawnp(
            argv[0],
            argv,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), CONTROL_FD),
                *((os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(output, 1)),
            ],
            setpgroup=0,
        )
    except OSError as error:
        ours.close()
        if error.errno not in (errno.EAGAIN, errno.ENOMEM):
            raise
        text = no_more_processes(str(error.strerror), "the process that starts workers")
        raise LimitReached(error.errno, text) from None
    finally:
        theirs.close()
    return ours, pid


def occupy_standard_descriptors() -> None:
    """Where a program was started without stdin, stdout or stderr, put nothing there, before a socket of ours takes the place."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number is this one, as those below are taken.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def start_early() -> None:
    """Start the zygote that the node about to be made will take."""
    if not _early:
        _early.append(start(PYTHON, dict(os.environ)))


def take(
    python: list[str], environment: dict[str, str], output: tuple[int, ...] = ()
) -> tuple[socket.socket, int]:
    """The zygote that was started early, if it is of that interpreter, or else a new one."""
    if python == PYTHON and _early:
        return _early.pop()
    return start(python, environment, output)


def discard() -> None:
    """End a zygote that was started early and never used, because the node was not created."""
    while _early:
        control, pid = _early.pop()
        control.close()
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            # Somebody else has reaped it.
            continue
