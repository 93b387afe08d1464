"""Starts a zygote process with a control socket.

This module is separate and imports little, because `init` starts the zygote before anything else: while the driver loads the
rest of the node, the zygote imports the modules of workers on another CPU.
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
    """Start a zygote with an interpreter; return our end of its control socket, and its pid.

    `output` holds descriptors for its stdout and stderr; by default it inherits those of this process.
    """
    occupy_standard_descriptors()
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"import sys; sys.path.insert(0, {source!r}); from skate.node.worker.zygote import main; main()"
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote_script.py")
    argv = [*python, "-c", code] if python == PYTHON else [*python, script]
    # Otherwise forked workers would inherit the unbuffered output of an interpreter started that way.
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
    """Open /dev/null for missing stdin, stdout or stderr, so that no socket takes their descriptors."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            # This is the lowest free number, because the lower ones are taken.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def start_early() -> None:
    """Start a zygote for the node about to be created."""
    if not _early:
        _early.append(start(PYTHON, dict(os.environ)))


def take(
    python: list[str], environment: dict[str, str], output: tuple[int, ...] = ()
) -> tuple[socket.socket, int]:
    """Return the zygote that was started early, if it uses this interpreter, or else a new one."""
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
            # The program has reaped it.
            continue
