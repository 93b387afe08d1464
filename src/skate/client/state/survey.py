"""Surveys of the cluster: collect the rows of all nodes and processes, and report the refs of this process.

Refs that never left a process are not in any table, so they cost nothing. A survey finds them among all objects that Python's
garbage collector tracks, which takes a few milliseconds.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from types import MethodType
from typing import TYPE_CHECKING, Any

from skate import procfs
from skate.client import span_store
from skate.client.object.object_ref import ObjectRef, site_text
from skate.core.state.surveys import EXPORTS
from skate.protocol import messages as m
from skate.protocol.fields import Where
from skate.protocol.messages import ARENA, INLINE, REMOTE

if TYPE_CHECKING:
    from skate.client.process import Process

_tokens = itertools.count(1)


def ask(
    process: Process, kinds: tuple[str, ...], timeout: float, where: Where, limit: int, detail: bool
) -> tuple[list[Any], list[Any]]:
    """Query all nodes and processes for some kinds of rows, for `timeout` seconds: (answers, missing sources).

    Nodes may return other rows than those `where` columns have certain values, and more than `limit` of a kind (0 for all).
    Raises RuntimeError if the session ends meanwhile.
    """
    token = next(_tokens)
    with process.lock:
        process._check_open()
        number = process.ask("survey", token, kinds, where, limit, detail)
        process.pump.kick()  # a node hosted here may have set a timer
        answer = process.wait_for_answer(number, timeout)
    if answer is None:
        answer = (True, process.request("survey_so_far", token))
    parts, missing = answer[1]
    return list(parts), list(missing)


def answer(process: Process, message: m.Survey) -> None:
    """Answer SURVEY with the refs and actors that this process holds. The lock is held."""
    _, key, kinds, where, _, _ = message
    context = process.context
    part: dict[str, Any] = {
        "pid": os.getpid(),
        "driver": process.is_driver and not process.looks,
        "job": process.job,
        "actor": b"" if context is None else context.actor_id or b"",
    }
    if "jobs" in kinds and part["driver"]:
        import json  # only lists of jobs need it

        part["entrypoint"] = " ".join(sys.argv)
        part["environment"] = json.dumps(process.job_environment or {})
        part["began_ms"] = process.began_ms
    if "objects" in kinds:
        part["refs"] = _refs(process, where.get("object"))
        part["handles"] = _handles(process)
    if "spans" in kinds:
        part["spans"] = span_store.texts_of(process.node_id)
    if EXPORTS in kinds and "SKATE_TRACING_HOOK" in os.environ:
        from skate.client import span_export  # only sessions that are traced

        span_export.begin(lambda: _later(process, key, part))
        return
    if "reports" in kinds:
        process.report_metrics()
        part["readings"] = _readings(process)
    if "announcements" in kinds:
        store = sys.modules.get("skate.client.state.announcement_store")  # loaded by the first announcement
        if store is not None:
            store.answer(
                process,
                where,
                lambda texts: _later(process, key, part | {"announcements": texts}),
            )
            return
    if not {"profile", "traceback"}.isdisjoint(kinds):
        from skate.client.profiler import reporter  # imported only when a profile is requested

        if reporter.is_meant(where, process.node_id.hex(), process.looks):
            part["name"] = _readings(process)[0]
            if reporter.PROFILE in kinds:
                reporter.begin(where, lambda: process.closed, lambda more: _later(process, key, part | more))
                return
            part[reporter.TRACEBACK] = reporter.stacks()
    process.send(m.Surveyed(m.SURVEYED, key, part))


def _later(process: Process, key: bytes, part: dict[str, Any]) -> None:
    """Answer from another thread, if the session has not ended meanwhile."""
    with process.lock:
        if not process.closed:
            process.send(m.Surveyed(m.SURVEYED, key, part))
            process.link.flush()


def _readings(process: Process) -> tuple[str, float, int, int]:
    """Return the name of this process, the seconds of CPU that it has used, and its bytes of memory: resident, and shared."""
    context = process.context
    if context is None:
        name = "dashboard" if process.looks else "driver"
    else:
        running, template = context.main, context.actor_template
        found = template if template is not None else None if running is None else running.template
        name = (
            f"ray::{'IDLE' if found is None else found.fields.get('qualified') or found.fields.get('name')}"
        )
    pages = procfs.read("/proc/self/statm").split()
    resident, shared = (int(word) * procfs.PAGE_BYTES for word in pages[1:3]) if pages else (0, 0)
    return name, time.process_time(), resident, shared


def _refs(process: Process, wanted: bytes | str | None) -> list[tuple[Any, ...]]:
    """Return the refs of this process: (id, kind, size, references, views of the value, containing ids, site).

    With `wanted`, return only those of one object.
    """
    refs: list[Any] = []
    views: dict[bytes, int] = {}
    released = ObjectRef._released
    for each in gc.get_objects():
        kind = type(each)
        if kind is ObjectRef:
            if each._process is process:
                refs.append(each)
        elif kind is MethodType and each.__func__ is released:
            oid = each.__self__._id
            views[oid] = views.get(oid, 0) + 1
    each = None
    inside: dict[bytes, list[bytes]] = {}
    for ref in refs:
        held = ref._held
        if isinstance(held, list):
            for inner in held:
                if type(inner) is ObjectRef:
                    inside.setdefault(inner._id, []).append(ref._id)
    if wanted is not None:
        refs = [ref for ref in refs if ref._id == wanted]
    inner = held = None
    # Counting itself adds references, and their number differs between versions of Python: measure it with a probe.
    ref = _Probe()
    refs.append(ref)
    found = []
    counts = []
    del ref
    for ref in refs:
        counts.append(sys.getrefcount(ref))
    own = counts.pop()
    refs.pop()
    for ref, count in zip(refs, counts, strict=True):
        oid = ref._id
        seen = views.get(oid, 0)
        within = inside.get(oid, [])
        count -= own + seen + len(within) + (oid in process.pending)
        found.append((oid, ref._kind, _size(ref), max(0, count), seen, within, site_text(ref._site) or ""))
    return found


class _Probe:
    __slots__ = ()


def _size(ref: ObjectRef[Any]) -> int:
    if ref._kind == INLINE:
        return len(ref._value)
    if ref._kind == ARENA:
        size: int = ref._value[1]
        return size
    return ref._value if ref._kind == REMOTE and type(ref._value) is int else 0


def _handles(process: Process) -> list[tuple[bytes, int]]:
    """Return the actors that this process holds, as (id, grants)."""
    found = []
    for actor_id, weak in list(process.actors.items()):
        hold = weak()
        if hold is not None and hold.grants:
            found.append((actor_id, hold.grants))
    return found
