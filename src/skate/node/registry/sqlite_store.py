"""Records in a folder of this machine: SQLite with a write-ahead log that is synchronized at each commit.

The folder is locked by its head, and the kernel releases the lock with the process. On a volume that moves between machines
(a StatefulSet with its claim, for example) one head follows the other. File systems of a network are refused: SQLite's log needs
shared memory between all its users, and locks there may outlive or lose their owners.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence

from skate.node.registry.store import Change, Opened, StoreFullError, StoreTakenError

FILE_NAME = "registry.sqlite"
LOCK_NAME = "lock"
#: Raised with every change of the tables; other versions are refused.
SCHEMA_VERSION = 1
#: Types of file systems in /proc/self/mountinfo that are somewhere else.
REMOTE_TYPES = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse.sshfs",
    "fuse.s3",
    "fuse.gcs",
)
#: Codes of SQLite's errors for a full disk, an exceeded quota included: SQLITE_FULL, and failed writes.
FULL = (13, 10 | 3 << 8, 10 | 19 << 8)


class SqliteStore:
    """A store in a folder, which is created if it does not exist.

    Args:
        folder: The path of the folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)
        self.name = self.folder
        self.on_lost: Callable[[str], None] = lambda reason: (
            None
        )  # the kernel keeps the lock for this process
        self._lock = -1
        self._database: sqlite3.Connection | None = None

    def open(self) -> Opened:
        """Lock the folder, begin the next epoch, and return the records."""
        os.makedirs(self.folder, 0o700, exist_ok=True)
        if kind := remote_type(self.folder):
            raise ValueError(
                f"the state of a head cannot be kept in {self.folder}: the file system there is {kind}, which is on another "
                "machine; name a folder on a local disk or on a volume with a file system of its own"
            )
        self._take_lock()
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            self.close()
            if _is_full(error):
                raise ValueError(f"{self.folder} has no space for the state of a head: {error}") from error
            raise ValueError(
                f"{os.path.join(self.folder, FILE_NAME)} cannot be read as the state of a head: {error}; restore it from a "
                "copy, or name an empty folder to begin with a new cluster"
            ) from error
        except BaseException:  # also Ctrl-C: the lock would stay
            self.close()
            raise

    def _take_lock(self) -> None:
        path = os.path.join(self.folder, LOCK_NAME)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(fd, 40, 0).decode(errors="replace").strip()
            os.close(fd)
            raise StoreTakenError(
                f"another head keeps its state in {self.folder} (process {owner or 'unknown'}); end it with `skate stop`, or "
                "name another folder"
            ) from None
        self._lock = fd
        with contextlib.suppress(OSError):  # a full disk: the name of the owner is a help, the lock counts
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def _open(self) -> Opened:
        path = os.path.join(self.folder, FILE_NAME)
        is_new = not os.path.exists(path)
        database = self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        os.chmod(path, 0o600)
        (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != "wal":
            raise ValueError(f"the file system of {self.folder} does not support SQLite's write-ahead log")
        database.execute("PRAGMA synchronous=FULL")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA_VERSION):
            raise ValueError(
                f"{path} has version {version} of the tables, and this Skate version {SCHEMA_VERSION}: start the head with the "
                "Skate that has written it, or name another folder"
            )
        with _transaction(database):
            database.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
            database.execute(
                "CREATE TABLE IF NOT EXISTS records "
                "(position INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, value BLOB NOT NULL)"
            )
            (before,) = database.execute("SELECT max(epoch) FROM epochs").fetchone()
            epoch = 1 + (before or 0)
            database.execute("DELETE FROM epochs")
            database.execute("INSERT INTO epochs VALUES (?)", (epoch,))
            database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        if is_new:
            _synchronize_folder(self.folder)
        records = dict(database.execute("SELECT key, value FROM records ORDER BY position"))
        return Opened(epoch, records)

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes as one transaction, synchronized with the disk."""
        assert self._database is not None, "the store is open while a head runs"
        try:
            with _transaction(self._database):
                for key, value in changes:
                    if value is None:
                        self._database.execute("DELETE FROM records WHERE key = ?", (key,))
                    else:
                        self._database.execute(
                            "INSERT INTO records (key, value) VALUES (?, ?) "
                            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                            (key, value),
                        )
        except sqlite3.DatabaseError as error:
            if _is_full(error):
                raise StoreFullError(
                    f"the disk of {self.folder} is full, where the head keeps its state ({error})"
                ) from error
            raise OSError(f"the head cannot write its state in {self.folder}: {error}") from error

    def close(self) -> None:
        """Release the folder."""
        database, self._database = self._database, None
        if database is not None:
            database.close()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:  # whatever it is: nothing of it may be written later
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _is_full(error: sqlite3.DatabaseError) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # since Python 3.11
    return code in FULL if code is not None else "is full" in str(error)


def _synchronize_folder(folder: str) -> None:
    """Make the names of new files durable."""
    for path in (folder, os.path.dirname(folder)):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def remote_type(folder: str, mounts: str = "/proc/self/mountinfo") -> str:
    """Return the type of a folder's file system if it is on another machine, otherwise an empty text."""
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts) as file:
            lines = file.read().splitlines()
    except OSError:  # no /proc: nothing is known
        return ""
    for line in lines:
        mounted, _, described = line.partition(" - ")
        kind = described.partition(" ")[0]
        if mounted.split()[2] == wanted and kind.startswith(REMOTE_TYPES):
            return kind
    return ""
