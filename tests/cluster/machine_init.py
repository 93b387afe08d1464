"""The first process of a machine: it prepares the namespaces it was started in, and ends the machine when its stdin ends.

`python machine_init.py NAME HOSTS KEPT...` runs as process 1 of new mount, host name, process and network namespaces. The
machine gets its own /proc, /tmp, /dev/shm and host name. KEPT are folders below /tmp that stay visible.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

MS_BIND, MS_MOVE = 4096, 8192
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0) -> None:
    """Mount a file system. Raises OSError if the kernel refuses."""
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def replace(path: str, text: str) -> None:
    """Let a file of the machine have another content; the host keeps its own."""
    own = os.path.join("/tmp/etc", os.path.basename(path))
    with open(own, "w") as file:
        file.write(text)
    if os.path.exists(path):
        mount(own, path, flags=MS_BIND)


def prepare(name: str, hosts: str, kept: list[str]) -> None:
    """Give the machine its name and its own folders."""
    socket.sethostname(name)
    mount("proc", "/proc", "proc")
    # The new /tmp is filled on another path, because it hides what it is mounted on.
    mount("tmpfs", "/mnt", "tmpfs")
    for folder in kept:
        place = "/mnt" + folder.removeprefix("/tmp")
        os.makedirs(place)
        mount(folder, place, flags=MS_BIND)
    mount("/mnt", "/tmp", flags=MS_MOVE)
    mount("tmpfs", "/dev/shm", "tmpfs")
    for folder in ("/tmp", "/dev/shm"):
        os.chmod(folder, 0o1777)
    for folder in ("/tmp/etc", "/tmp/home"):
        os.mkdir(folder, 0o700)
    replace("/etc/hosts", hosts)
    # A question about an unknown name fails at once instead of waiting for a server that is not there.
    replace("/etc/resolv.conf", "")


def reap(*_: object) -> None:
    """Take the exit status of every orphan that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main() -> None:
    signal.signal(signal.SIGCHLD, reap)
    name, hosts, *kept = sys.argv[1:]
    prepare(name, hosts, kept)
    os.write(1, b"ready\n")
    os.close(1)
    # Nothing is ever written to this pipe; it ends with the test.
    os.read(0, 1)


if __name__ == "__main__":
    main()
