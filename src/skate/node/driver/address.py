"""The address of a standalone node: a Unix socket in a folder that only its user can enter.

The name of the socket contains the pid of its node, so an address that outlives its node is recognizable. The node holds a lock
on the folder, which the kernel releases with the process, so no stale file can pass for a living node.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager

SCHEME = "skate://"
#: The scheme of Ray's client.
CLIENT_SCHEME = "ray://"
SOCKET_PREFIX, SOCKET_SUFFIX = "node-", ".sock"
#: The prefix of abstract socket names. Such a socket is not a file, and disappears with its process.
ABSTRACT = "@"
LOG_NAMES = ("node.log", "node.log.1")
#: Folders of the engine that connects machines.
ENGINE_PREFIX = "skate-engine-"
#: The folder of what clients leave for the session of a node: packages, jobs and their logs.
SESSION_PREFIX = "session-"
#: Files of a node in a cluster of several machines: the cluster's address, and the token if the head has made it.
CLUSTER_NAME, TOKEN_NAME = "cluster", "cluster-token"
#: The URL and the tokens of the dashboard of a standing node.
DASHBOARD_NAME = "dashboard.json"
#: Where Prometheus finds the metrics of that dashboard, in Ray's form, and the token that reads them.
DISCOVERY_NAME, METRICS_TOKEN_NAME = "prom_metrics_service_discovery.json", "metrics-token"


class OpenFolderError(PermissionError):
    """Raised when other users can enter the folder of the socket."""


def given_address(named: str | None) -> str | None:
    """Return the address given by the caller or the environment, or None."""
    return named or os.environ.get("SKATE_ADDRESS") or os.environ.get("RAY_ADDRESS") or None


def directory() -> str:
    """Return the folder of this user's node: $SKATE_TMPDIR, $XDG_RUNTIME_DIR/skate or /tmp/skate-<uid>."""
    named = os.environ.get("SKATE_TMPDIR")
    if named:
        return os.path.abspath(named)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        return os.path.join(runtime, "skate")
    return f"/tmp/skate-{os.geteuid()}"


def check(folder: str) -> None:
    """Raise OpenFolderError unless only this user can enter the folder, and FileNotFoundError if it does not exist."""
    found = os.lstat(folder)
    problem = ""
    if not stat.S_ISDIR(found.st_mode):
        problem = "it is a link or a file" if not stat.S_ISLNK(found.st_mode) else "it is a symbolic link"
    elif found.st_uid != os.geteuid():
        problem = f"it belongs to user {found.st_uid}, and you are {os.geteuid()}"
    elif found.st_mode & 0o077:
        problem = f"others may enter it (mode {stat.S_IMODE(found.st_mode):04o})"
    if problem:
        raise OpenFolderError(
            f"{folder} is not used for the node's socket: {problem}, but access to the socket allows running "
            f"code as you; make it private (chmod 700 {folder}), or set another folder in SKATE_TMPDIR"
        )


def make(folder: str) -> bool:
    """Create the folder, or check that only this user can enter it; return True if it was created."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.mkdir(folder, 0o700)
    except FileExistsError:
        check(folder)
        return False
    check(folder)
    return True


def lock(folder: str) -> int | None:
    """Lock the folder for a node; return a descriptor that holds the lock until it is closed, or None if another node has it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_locked(folder: str) -> bool:
    """Return True if a living node has locked the folder."""
    fd = lock(folder)
    if fd is None:
        return True
    os.close(fd)
    return False


def sockets(folder: str) -> list[str]:
    """Return the paths of the sockets in a folder, of living and dead nodes."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        os.path.join(folder, n) for n in names if n.startswith(SOCKET_PREFIX) and n.endswith(SOCKET_SUFFIX)
    )


def path_for(folder: str, pid: int) -> str:
    """Return the path of a node's socket."""
    return os.path.join(folder, f"{SOCKET_PREFIX}{pid}{SOCKET_SUFFIX}")


def session_folder(path: str) -> str | None:
    """Return the folder of a node's session, which may not exist yet, or None for a session inside a program."""
    if path.startswith(ABSTRACT):
        return None
    return os.path.join(os.path.dirname(path), f"{SESSION_PREFIX}{pid_of(path)}")


def job_locks(folder: str) -> list[int]:
    """Open the locks that the supervisors of jobs hold as long as they live."""
    found = []
    for session in os.listdir(folder):
        jobs = os.path.join(folder, session, "jobs")
        if session.startswith(SESSION_PREFIX) and os.path.isdir(jobs):
            for name in os.listdir(jobs):
                if name.endswith(".lock"):
                    found.append(os.open(os.path.join(jobs, name), os.O_RDONLY | os.O_CLOEXEC))
    return found


def pid_of(path: str) -> int | None:
    """Return the pid of the node that created a socket, from its name."""
    name = os.path.basename(path)
    name = name.removeprefix(ABSTRACT)
    number = name[len(SOCKET_PREFIX) :].removesuffix(SOCKET_SUFFIX).partition("-")[0]
    return int(number) if name.startswith(SOCKET_PREFIX) and number.isdigit() else None


def sweep(folder: str, keep_log: bool = False) -> list[str]:
    """Remove the files of a dead node from a folder, and return their paths. The folder's lock is held."""
    gone = []
    names = (
        *(() if keep_log else LOG_NAMES),
        CLUSTER_NAME,
        TOKEN_NAME,
        DASHBOARD_NAME,
        DISCOVERY_NAME,
        METRICS_TOKEN_NAME,
    )
    for path in (*sockets(folder), *(os.path.join(folder, name) for name in names)):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        gone.append(path)
    for name in os.listdir(folder):
        if name.startswith((ENGINE_PREFIX, SESSION_PREFIX)):
            import shutil  # only after a node of a cluster was killed, and for sessions with jobs

            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    return gone


def to_path(address: str) -> str | None:
    """Return the socket path in an address, or None if it is not the address of a standalone node."""
    if address.startswith(SCHEME):
        return address[len(SCHEME) :]
    if address.startswith("/"):
        return address
    return None


def to_address(path: str) -> str:
    """Return the address of a socket: its path, or an abstract name with the scheme."""
    return SCHEME + path if path.startswith(ABSTRACT) else path


def bind(path: str) -> socket.socket:
    """Return a listening socket at a path of any length."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            listener.bind(name)
        if not path.startswith(ABSTRACT):
            os.chmod(path, 0o600)
        listener.listen(128)
        listener.setblocking(False)
    except BaseException:  # close the descriptor in any case
        listener.close()
        raise
    return listener


def connect(path: str) -> socket.socket:
    """Connect to the node at a path. Raise ConnectionError, with the reason, if it is gone."""
    try:
        if not path.startswith(ABSTRACT):  # for an abstract socket, the kernel reports the peer's user
            check(os.path.dirname(path))
    except (FileNotFoundError, NotADirectoryError):
        raise ConnectionError(gone_text(path)) from None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            sock.connect(name)
    except OSError as error:
        sock.close()
        if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK):
            raise ConnectionError(gone_text(path)) from None
        raise
    _check_peer(sock, path)
    return sock


def _check_peer(sock: socket.socket, path: str) -> None:
    uid = credentials(sock)[1]
    if uid != os.geteuid():
        sock.close()
        raise ConnectionError(f"the process that listens at {path} belongs to user {uid}, not to you")


def credentials(sock: socket.socket) -> tuple[int, int]:
    """Return the pid and user id of the peer."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")


def find(folder: str) -> str:
    """Return the socket path of the node in a folder. Raise ConnectionError if there is none."""
    try:
        check(folder)
        if is_locked(folder):
            for path in sockets(folder):
                if _exists(pid_of(path)):
                    return path
    except FileNotFoundError:
        # No node was ever started there.
        pass
    dead = [str(pid_of(path)) for path in sockets(folder)]
    was = f"; the process of the last one, {', '.join(dead)}, is gone" if dead else ""
    raise ConnectionError(
        f'address="auto" means the node of this user, expected in {folder}, but none runs there{was}; start one with '
        "`skate start --head`, or leave the address out to host a node in this process"
    )


def of_pid(pid: int, folder: str) -> str:
    """Return the socket path of a process's node: of a session that it hosts, or of the standing node of a folder.

    Raise ConnectionError if it has none, or does not let others look at its session.
    """
    for path in sockets(folder):
        if pid_of(path) == pid:
            return path
    with open("/proc/net/unix") as table:  # abstract names are in no folder
        for line in table:
            name = line.split()[-1].removeprefix("@")
            if name.startswith(ABSTRACT) and pid_of(name) == pid:
                return name
    what = "hosts no session, or one with SKATE_ATTACH=0" if _exists(pid) else "does not exist"
    raise ConnectionError(f"the process {pid} {what}")


def is_network(address: str) -> bool:
    """Return True for the address of a cluster of machines, such as 10.0.0.5:6379; also for several with commas."""
    return "/" not in address and all(map(_is_place, address.split(",")))


def _is_place(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and int(port) < 1 << 16


def is_client(address: str) -> bool:
    """Return True for an address for clients, such as ray://10.0.0.5:6379."""
    return address.startswith(CLIENT_SCHEME)


def cluster_in(address: str) -> str:
    """Return the address of a cluster of machines without its scheme; empty for any other address."""
    plain = address.removeprefix(CLIENT_SCHEME)
    return plain if is_network(plain) else ""


def cluster_of(folder: str) -> str:
    """Return the address of the cluster that the node of a folder belongs to; empty without such a node."""
    try:
        with open(os.path.join(folder, CLUSTER_NAME)) as file:
            address = file.read().strip()
        check(folder)
        return address if is_locked(folder) else ""
    except OSError:
        return ""


def gone_text(path: str) -> str:
    """Return the message for a socket where no node answers."""
    pid = pid_of(path)
    what = f"its process {pid} is gone" if pid is not None else "nothing listens there"
    if pid is None and not os.path.exists(path):
        what = "there is no such socket"
    if path.startswith(ABSTRACT):
        return f"there is no session at {to_address(path)} any more: {what}, and it ended with the program that had started it"
    return (
        f"there is no node at {path} any more: {what}; start one with `skate start --head` and use the address that it prints, "
        'or address="auto"'
    )


def _exists(pid: int | None) -> bool:
    return pid is not None and os.path.exists(f"/proc/{pid}")


@contextmanager
def _short(path: str) -> Iterator[str]:
    """Yield a name for a path that fits into a socket address, which holds 107 bytes."""
    if path.startswith(ABSTRACT):
        yield "\0" + path
        return
    if len(os.fsencode(path)) < 100:
        yield path
        return
    fd = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{os.path.basename(path)}"
    finally:
        os.close(fd)
