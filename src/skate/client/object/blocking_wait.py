"""Blocking waits for objects: report them to the node, explain long ones, and end those that can never succeed.

A value that arrives within half a second costs nothing here. A longer wait without a timeout is reported to the node, which
looks for deadlocks. A wait of ten seconds prints what it waits for, and why, on stderr, and repeats the note from time to time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate.client.core.wait import Wait
from skate.client.object.object_ref import ObjectRef, site_text
from skate.protocol.fields import WaitFacts

if TYPE_CHECKING:
    from skate.client.process import Process

Ready = Callable[[], bool]

NOTE_SECONDS = 10.0
#: The time of the second note and the interval of later ones, as multiples of the time of the first note.
SECOND_NOTE = 6
LATER_NOTES = 30
ANSWER_SECONDS = 2.0
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
LIBRARIES = ("site-packages", "dist-packages")


def wait_blocked(process: Process, ready: Ready, timeout: float | None, what: Any, needed: int = 0) -> bool:
    """Wait until `ready()`, with the thread reported as blocked; return False on timeout. The lock is held.

    `what` is one ref or generator, or a list of them. The wait needs `needed` of them, or all if it is 0. Raise DeadlockError
    if they can never be ready, and RuntimeError if the session ends.
    """
    pump = process.pump
    quick = pump.quick_seconds
    blocked = process.link.block(lasting=quick is None)
    try:
        if quick is None or (timeout is not None and timeout <= quick):
            arrived = pump.wait(ready, timeout)
        else:
            arrived = pump.wait(ready, quick)
            if not arrived and not process.closed:
                blocked = blocked or process.link.block()
                lasting = BlockingWait(process, what if isinstance(what, list) else [what], needed)
                arrived = lasting.wait(ready, None if timeout is None else timeout - quick)
    finally:
        if blocked:
            process.link.unblock()
    if process.closed:
        raise process.ended()
    return arrived


class BlockingWait(Wait):
    """A long wait of one thread."""

    def __init__(self, process: Process, what: list[Any], needed: int) -> None:
        context = process.context
        super().__init__(what, needed, b"" if context is None else context.task_id())
        self.process = process
        self.started = time.monotonic() - (process.pump.quick_seconds or 0.0)
        self.thread = threading.get_ident()
        self.where = user_line()

    def wait(self, ready: Ready, left: float | None) -> bool:
        """Continue waiting, for `left` seconds at most."""
        process = self.process
        deadline = None if left is None else time.monotonic() + left
        if deadline is None and self._is_own_thread():
            process.begin_wait(self)
            process.link.flush()
        try:
            pauses = note_times()
            note_at = next(pauses, None)
            while True:
                now = time.monotonic()
                until = None if note_at is None else self.started + note_at - now
                if deadline is not None and (until is None or deadline - now < until):
                    until = deadline - now
                arrived = process.pump.wait(lambda: ready() or self.verdict is not None, until)
                if process.closed or ready():
                    return arrived
                if self.verdict is not None:
                    from skate.exceptions import DeadlockError  # only errors need the tree

                    raise DeadlockError(self.verdict)
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                self._note(ready)
                note_at = next(pauses, None)
        finally:
            if self.number:
                process.end_wait(self)

    def _is_own_thread(self) -> bool:
        """Return True if a task or the driver makes no progress while this thread waits."""
        thread = threading.current_thread()
        if self.process.is_driver or thread is threading.main_thread():
            return True
        return thread.name.startswith("skate-call-")

    def facts(self) -> WaitFacts:
        """Return the line that waits, and how many other threads of the process may make progress."""
        return {"where": self.where, "free": threads_free(self.process)}

    # -- messages to the user

    def _note(self, ready: Ready) -> None:
        """Print a line about this wait on stderr."""
        process = self.process
        ids = self.missing()
        if not ids:
            return
        reason = why(process, ids[0])
        if ready() or process.closed:
            return
        site = next((site_of(each) for each in self.what if id_of(each) == ids[0]), None)
        if site is not None and site.startswith(HERE) and _is_under_way(reason):
            return  # the work of a library is making progress, and the library shows it itself
        waited = time.monotonic() - self.started
        text = f"skate: waiting for {waited:.0f} s{' at ' + self.where if self.where else ''}"
        if len(self.what) > 1:
            text += (
                f" for {self.needed or len(self.what)} of {len(self.what)} values, {len(ids)} are not "
                "available"
            )
        text += f"; {'the first' if len(ids) > 1 else 'it'}"
        text += f" was submitted at {site}" if site else " was created elsewhere"
        with process.pump.unlocked():
            sys.stderr.write(f"{text}: {reason or 'the reason is unknown'}\n")
            sys.stderr.flush()


def _is_under_way(reason: str) -> bool:
    """Return True if the reason is work in progress rather than a wait."""
    if reason.startswith("runs on") or reason.endswith("its worker is being started"):
        return True
    return " has not started yet: starts on " in reason  # the constructor of an actor runs


def id_of(thing: Any) -> bytes:
    """Return the id of a ref, or the task id of a generator."""
    found: bytes = thing._id if type(thing) is ObjectRef else thing._stream.task_id
    return found


def site_of(thing: Any) -> str | None:
    """Return where a ref or a generator was submitted."""
    return site_text(thing._site if type(thing) is ObjectRef else thing._stream.site)


def why(process: Process, any_id: bytes) -> str:
    """Ask the node why an object is not ready; return an empty string if the reason is unknown. The lock is held."""
    answer = process.wait_for_answer(process.ask("why", any_id), ANSWER_SECONDS)
    return str(answer[1]) if answer is not None and answer[0] else ""


def note_times() -> Iterator[float]:
    """Yield the seconds of waiting after which notes are printed, starting with SKATE_WAIT_NOTE_SECONDS."""
    try:
        first = float(os.environ.get("SKATE_WAIT_NOTE_SECONDS") or NOTE_SECONDS)
    except ValueError:
        first = NOTE_SECONDS
    if first <= 0:
        return
    yield first
    at = SECOND_NOTE * first
    while True:
        yield at
        at += LATER_NOTES * first


def threads_free(process: Process) -> int:
    """Count the program's threads that do not wait here and may therefore make progress.

    Skate's own threads do not count, nor do daemon threads that run only library code, such as those of progress bars.
    """
    known = {wait.thread for wait in process.waits.values() if isinstance(wait, BlockingWait)}
    if not process.is_driver:
        known.add(threading.main_thread().ident or 0)  # the node tracks the tasks that it runs
    frames = sys._current_frames()
    frames.pop(threading.get_ident(), None)  # our own frame: the cycle would keep the awaited refs alive
    return sum(
        1
        for thread in threading.enumerate()
        if thread.ident not in known
        and not thread.name.startswith("skate-")
        and not (thread.daemon and _is_a_librarys(frames.get(thread.ident or 0)))
    )


def _is_a_librarys(frame: Any) -> bool:
    """Return True if a stack has frames of an installed library and no others except those of the standard library."""
    found = False
    standard = os.path.dirname(os.__file__) + os.sep
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in LIBRARIES) and not name.startswith(HERE):
            found = True
        elif not name.startswith((standard, "<frozen")):
            return False
        frame = frame.f_back
    return found


def user_line() -> str:
    """Return the file and line of the user code that waits."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
