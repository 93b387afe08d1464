"""Queues of messages in one SQLite file, for processes of one machine.

A message that a process has taken stays in the file until the process acknowledges it. Each process that takes messages locks
a small file beside the database. The kernel releases the lock when the process ends, for whatever reason, and then the others
take its messages. So no message is lost with its consumer, none is delivered twice because its consumer is slow, and there is
no timeout to choose.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

_TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, payload TEXT NOT NULL, holder TEXT, again INTEGER DEFAULT 0);
CREATE INDEX IF NOT EXISTS messages_free ON messages (queue, holder, id);
CREATE TABLE IF NOT EXISTS bindings (
    exchange TEXT, key TEXT, pattern TEXT, queue TEXT, UNIQUE (exchange, key, pattern, queue));
CREATE TABLE IF NOT EXISTS private_queues (queue TEXT PRIMARY KEY, holder TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL, stored REAL NOT NULL);
CREATE INDEX IF NOT EXISTS results_stored ON results (stored);
"""
#: Seconds that a process waits for another one's transaction.
_BUSY_SECONDS = 30.0
#: Seconds between looks for processes that have ended.
_LOOK_SECONDS = 0.25

Binding = tuple[str, str, str]


class QueueFile:
    """Queues, bindings and results in the file at `path`, which is created on first use. Threads may share an object."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._lock = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._pid = 0
        self._looked = 0.0

    # -- messages

    def put(self, queue: str, payload: str) -> None:
        """Append a message."""
        with self._writing() as db:
            db.execute("INSERT INTO messages (queue, payload) VALUES (?, ?)", (queue, payload))

    def take(self, queue: str, keep: bool = True) -> tuple[int, str, bool] | None:
        """Take the oldest free message, or return None.

        Args:
            queue: its queue.
            keep: keep the message in the file until `done`; otherwise it is gone.

        Returns:
            Its number, its payload, and True if an earlier taker has not finished it.
        """
        self._free_messages_of_the_dead()
        free = (
            "SELECT id, payload, again FROM messages WHERE queue = ? AND holder IS NULL ORDER BY id LIMIT 1"
        )
        with self._lock:
            if self._db().execute(free, (queue,)).fetchone() is None:
                return None
        with self._writing() as db:
            row = db.execute(free, (queue,)).fetchone()
            if row is None:  # another process was faster
                return None
            if keep:
                db.execute("UPDATE messages SET holder = ? WHERE id = ?", (own_claim(self.path), row[0]))
            else:
                db.execute("DELETE FROM messages WHERE id = ?", (row[0],))
        return int(row[0]), str(row[1]), bool(row[2])

    def done(self, number: int) -> None:
        """Remove a message that was taken."""
        with self._writing() as db:
            db.execute("DELETE FROM messages WHERE id = ? AND holder = ?", (number, own_claim(self.path)))

    def release(self, number: int) -> None:
        """Let others take a message that was taken here."""
        with self._writing() as db:
            db.execute(
                "UPDATE messages SET holder = NULL, again = 1 WHERE id = ? AND holder = ?",
                (number, own_claim(self.path)),
            )

    def size(self, queue: str) -> int:
        """Return the number of free messages."""
        with self._lock:
            count = "SELECT count(*) FROM messages WHERE queue = ? AND holder IS NULL"
            return int(self._db().execute(count, (queue,)).fetchone()[0])

    def purge(self, queue: str) -> int:
        """Remove the free messages of a queue; return their number."""
        with self._writing() as db:
            return db.execute("DELETE FROM messages WHERE queue = ? AND holder IS NULL", (queue,)).rowcount

    # -- exchanges

    def bind(self, exchange: str, key: str, pattern: str, queue: str) -> None:
        """Send the messages of an exchange to a queue as well."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO bindings VALUES (?, ?, ?, ?)", (exchange, key, pattern, queue))

    def bindings(self, exchange: str) -> list[Binding]:
        """Return the key, the pattern and the queue of each binding of an exchange."""
        with self._lock:
            found = "SELECT key, pattern, queue FROM bindings WHERE exchange = ?"
            return [(row[0], row[1], row[2]) for row in self._db().execute(found, (exchange,))]

    def add_private(self, queue: str) -> None:
        """Let a queue, its messages and its bindings end with this process."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO private_queues VALUES (?, ?)", (queue, own_claim(self.path)))

    def remove(self, queue: str) -> None:
        """Remove a queue with its messages and bindings."""
        with self._writing() as db:
            _remove(db, queue)

    # -- results

    def result(self, key: str) -> str | None:
        """Return a stored result, or None."""
        with self._lock:
            row = self._db().execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
            return None if row is None else str(row[0])

    def store_result(self, key: str, value: str, keep_s: float | None) -> None:
        """Store a result, and remove those that are older than `keep_s` seconds; None keeps them all."""
        now = time.time()
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (key, value, now))
            if keep_s is not None:
                db.execute("DELETE FROM results WHERE stored < ?", (now - keep_s,))

    def remove_result(self, key: str) -> None:
        """Remove a result."""
        with self._writing() as db:
            db.execute("DELETE FROM results WHERE key = ?", (key,))

    # -- the file

    def close(self) -> None:
        """Close the file; another call opens it again."""
        with self._lock:
            if self._open is not None and self._pid == os.getpid():
                self._open.close()
            self._open = None

    def _db(self) -> sqlite3.Connection:
        if self._open is None or self._pid != os.getpid():  # SQLite's connections must not cross a fork
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            opened = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            opened.execute("PRAGMA journal_mode = WAL")
            opened.execute("PRAGMA synchronous = NORMAL")
            opened.executescript(_TABLES)
            self._open, self._pid = opened, os.getpid()
        return self._open

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            db = self._db()
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:  # whatever ends the block, nothing of it is written
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def _free_messages_of_the_dead(self) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._looked < _LOOK_SECONDS:
                return
            self._looked = now
            known = self._db().execute(
                "SELECT holder FROM messages WHERE holder IS NOT NULL UNION SELECT holder FROM private_queues"
            )
            holders = [row[0] for row in known]
        for holder in holders:
            if not _lives(self.path, holder):
                self._bury(holder)

    def _bury(self, holder: str) -> None:
        with self._writing() as db:
            left = db.execute("SELECT queue FROM private_queues WHERE holder = ?", (holder,)).fetchall()
            for row in left:
                _remove(db, row[0])
            db.execute("UPDATE messages SET holder = NULL, again = 1 WHERE holder = ?", (holder,))
        try:
            os.unlink(_claim_path(self.path, holder))
        except OSError:  # another process has removed it
            pass


def _remove(db: sqlite3.Connection, queue: str) -> None:
    db.execute("DELETE FROM messages WHERE queue = ?", (queue,))
    db.execute("DELETE FROM bindings WHERE queue = ?", (queue,))
    db.execute("DELETE FROM private_queues WHERE queue = ?", (queue,))


# -- claims: a locked file for each process that takes messages

_claims: dict[tuple[int, str], tuple[str, int]] = {}
_claims_lock = threading.Lock()


def own_claim(path: str) -> str:
    """Return the name under which this process takes messages from a file, and hold its lock until the process ends."""
    key = (os.getpid(), path)
    with _claims_lock:
        if key not in _claims:
            name = uuid.uuid4().hex
            os.makedirs(f"{path}.claims", exist_ok=True)
            locked = os.open(_claim_path(path, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Such a lock belongs to the process: a forked child does not keep it.
            fcntl.lockf(locked, fcntl.LOCK_EX)
            _claims[key] = name, locked
        return _claims[key][0]


def _claim_path(path: str, name: str) -> str:
    return os.path.join(f"{path}.claims", name)


def _lives(path: str, name: str) -> bool:
    """Return True if the process with this claim has not ended."""
    if name == own_claim(path):
        return True  # to close a second descriptor of this file would release the lock
    try:
        opened = os.open(_claim_path(path, name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(opened)
    return False
