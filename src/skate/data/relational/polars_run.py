"""Polars: loading it on demand, and running a frame in its threads."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import sys
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa

from skate import procfs
from skate.data.context import available_cpus
from skate.data.relational import decimals
from skate.data.relational.csv_scans import TasksOf
from skate.data.relational.distinct_frame import DistinctFrame
from skate.data.relational.frames import Frame
from skate.data.relational.late_frame import LateFrame
from skate.data.relational.passes import Passes
from skate.data.relational.refusals import StageRefused

#: The variable that Polars reads once, when it is imported.
_THREADS = "POLARS_MAX_THREADS"
#: The oldest release whose results were compared with the ordinary way.
_OLDEST = 2
#: Tables that wait for the consumer before Polars has to.
_AHEAD = 4
#: How often a waiting reader looks whether it is still wanted.
_LOOK_SECONDS = 0.1


def loaded() -> bool:
    """True if Polars has been imported."""
    return "polars" in sys.modules


def installed() -> bool:
    """True if Polars can be imported."""
    return loaded() or importlib.util.find_spec("polars") is not None


def load() -> Any | None:
    """Import Polars, with as many threads as there are CPUs to plan for; return None if it is missing or too old."""
    ours = not loaded() and _THREADS not in os.environ
    if ours:
        os.environ[_THREADS] = str(
            min(available_cpus(), procfs.cpu_count())
        )  # a session may have several nodes
    try:
        import polars  # optional, and 0.1 s
    except ImportError:
        return None
    finally:
        if ours:  # other programs that this one starts decide for themselves
            os.environ.pop(_THREADS, None)
    return polars if int(polars.__version__.split(".", 1)[0]) >= _OLDEST else None


#: What a stage runs.
Given = Frame | LateFrame | DistinctFrame | Passes


class FrameRun:
    """One run of a frame, which a thread of its own reads, so that a consumer who waits can be interrupted."""

    def __init__(self, frame: Given, tasks_of: TasksOf) -> None:
        self._given = frame
        self._tasks_of = tasks_of
        self._tables: queue.Queue[Any] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, name="skate-relational", daemon=True)

    def start(self) -> None:
        """Let Polars begin."""
        self._thread.start()

    def tables(self) -> Generator[pa.Table, None, None]:
        """Yield the result in tables, at least one. Raises StageRefused if there is none, because Polars failed."""
        count = 0
        try:
            while True:
                found = self._tables.get()
                if found is None:
                    break
                if isinstance(found, pa.Schema):
                    if not count:
                        yield found.empty_table()
                    break
                if isinstance(found, BaseException):
                    if count:
                        raise pa.ArrowInvalid(f"Polars stopped in the middle of a result: {found}") from found
                    raise StageRefused(str(found)) from found
                count += 1
                yield found
        finally:
            self._closed.set()

    def close(self) -> None:
        """End the run; a consumer who waits gets no more tables."""
        self._closed.set()
        with contextlib.suppress(queue.Full):  # then the consumer does not wait
            self._tables.put_nowait(None)

    def _read(self) -> None:
        try:
            schema = None
            for found in self._found():
                if isinstance(found, pa.Table):
                    self._put(found)
                    schema = found.schema
                    continue
                schema = found.schema
                for piece in _pieces(found):
                    if piece.height and not self._put(as_table(piece, schema)):
                        return
            self._put(schema)
        except BaseException as error:  # a panic of Polars is none of the usual exceptions
            self._put(error)

    def _found(self) -> Iterator[Frame | pa.Table]:
        """Yield the frames whose rows are the result, or the result itself."""
        given = self._given
        if isinstance(given, Passes):
            yield from given.frames(self._is_wanted)
        else:
            yield given if isinstance(given, Frame) else given.now(self._tasks_of, self._is_wanted)

    def _is_wanted(self) -> bool:
        return not self._closed.is_set()

    def _put(self, value: Any) -> bool:
        """Pass a value to the consumer; return False if there is none any more."""
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._tables.put(value, timeout=_LOOK_SECONDS)
                return True
        return False


def _pieces(frame: Frame) -> Iterator[Any]:
    if frame.one_row:  # pieces in order would cost some milliseconds
        return iter((frame.lazy.collect(engine="streaming"),))
    found: Iterator[Any] = frame.lazy.collect_batches(maintain_order=True, engine="streaming")
    return found


def as_table(piece: Any, schema: pa.Schema) -> pa.Table:
    """Return rows of Polars in the types of the ordinary way."""
    found: pa.Table = piece.to_arrow()
    columns = []
    for column, field in zip(found.columns, schema, strict=True):
        if decimals.holds_decimals(field.type):
            columns.append(decimals.restored(column, field.type))
        else:
            columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.table(columns, schema=schema)
