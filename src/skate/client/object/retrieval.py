"""get, wait, put and cancel."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from skate.client.object import views
from skate.client.object.blocking_wait import wait_blocked, why
from skate.client.object.generators import ObjectRefGenerator
from skate.client.object.object_ref import ObjectRef, site_text
from skate.client.session import session
from skate.client.task import option_values
from skate.protocol import messages as m
from skate.protocol.messages import ARENA, ERROR, PENDING, REMOTE, UNKNOWN
from skate.protocol.states import METHOD

_kind_of = attrgetter("_kind")
#: True if the line that puts a small value is recorded as well; it costs 6 % of such a put.
RECORD_SITES = "1" in (
    os.environ.get("SKATE_RECORD_REF_CREATION_SITES"),
    os.environ.get("RAY_record_ref_creation_sites"),  # noqa: SIM112 (as Ray spells it)
)
_WAITABLE = {ObjectRef, ObjectRefGenerator}


def get(object_refs: Any, *, timeout: float | None = None, _use_object_store: bool = False) -> Any:
    """Wait for a ref, or a list of refs, and return the value or values.

    Args:
        object_refs: One ObjectRef, or a list of them; values are returned in the order of the list.
        timeout: The maximum number of seconds to wait; 0 does not wait, None (the default) waits without a limit.

    Raises:
        GetTimeoutError: a value is not ready within `timeout`.
        RayTaskError: a task failed; it also has the class of the task's own exception, where Python allows it.
        ValueError, TypeError: `object_refs` is neither an ObjectRef nor a list of them.
    """
    if _use_object_store:
        from skate.client.tensor.tensors import (
            through_object_store,  # only values with tensors elsewhere need it
        )

        with through_object_store():
            return get(object_refs, timeout=timeout)
    if type(object_refs) is ObjectRef:
        process: Any = object_refs._process
        if process is None or process.closed:
            return _get_all([object_refs], timeout)[0]
        if object_refs._kind == PENDING:
            current = session.current_or_none()
            if current is None or current is not process:
                return _get_all([object_refs], timeout)[0]
            if timeout is not None and timeout < 0:
                timeout = None if timeout == -1 else 0
            with current.lock:
                if object_refs._kind == PENDING and not wait_blocked(
                    current, object_refs._is_ready, timeout, object_refs
                ):
                    raise _not_there(current, [object_refs], timeout)
        if object_refs._kind >= UNKNOWN:  # the value is on another node
            return _get_all([object_refs], timeout)[0]
        return process.load(object_refs)
    if isinstance(object_refs, list):
        if not object_refs:
            return []
        for ref in object_refs:
            if type(ref) is not ObjectRef:
                getter = getattr(type(ref), "__ray_get_list__", None)
                if getter is not None:
                    found: list[Any] = getter(object_refs, timeout)
                    return found
                raise _not_a_ref(ref, "get")
        return _get_all(object_refs, timeout)
    getter = getattr(type(object_refs), "__ray_get__", None)
    if getter is not None:
        return getter(object_refs, timeout)
    if type(object_refs) is ObjectRefGenerator:  # so that `get` accepts whatever a call returns
        return object_refs
    raise ValueError(
        f"Invalid type of object refs, {type(object_refs)}, is given. 'object_refs' must either be an ObjectRef or a list of "
        f"ObjectRefs, got {object_refs!r:.80}"
        + ("; make it a list" if isinstance(object_refs, (tuple, set, frozenset)) else "")
    )


def _not_a_ref(value: Any, verb: str) -> TypeError:
    hint = " (nested lists are not supported: flatten them)" if isinstance(value, (list, tuple)) else ""
    if verb == "wait":
        return TypeError(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing "
            f"{type(value)}: {value!r:.80}{hint}"
        )
    return TypeError(
        f"Attempting to call `get` on the value {str(value):.80}, which is not a ray.ObjectRef but a "
        f"{type(value).__name__}{hint}"
    )


def _get_all(refs: list[ObjectRef[Any]], timeout: float | None) -> list[Any]:
    process = session.current()
    if timeout is not None and timeout < 0:
        timeout = None if timeout == -1 else 0
    asked: list[ObjectRef[Any]] = []
    try:
        return _get_asking(process, refs, timeout, asked)
    finally:
        for ref in asked:
            views.let_go(ref)


def _get_asking(
    process: Any, refs: list[ObjectRef[Any]], timeout: float | None, asked: list[ObjectRef[Any]]
) -> list[Any]:
    """Get all values. Append refs that had to be fetched to `asked`; their values stay in memory until they are read."""

    def ask(ref: ObjectRef[Any]) -> None:
        process.ask_for(ref)
        views.keep(ref)
        asked.append(ref)

    with process.lock:
        process._check_open()
        for ref in refs:
            if ref._kind >= UNKNOWN or ref._process is not process:
                ask(ref)
        at = 0
        count = len(refs)
        failed = -1

        def ready() -> bool:
            nonlocal at, failed
            while at < count:
                kind = refs[at]._kind
                if kind >= UNKNOWN:  # the value is on another node, or on disk
                    ask(refs[at])
                    process.link.flush()
                    kind = refs[at]._kind
                if kind == PENDING:
                    if failed == process.failed:
                        return False
                    # A value has failed since the last check. If it is one of these, stop waiting for the others.
                    if any(ref._kind == ERROR for ref in refs):
                        return True
                    failed = process.failed
                    return False
                at += 1
            return True

        if not ready():
            arrived = wait_blocked(process, ready, timeout, refs)
            if not arrived:
                raise _timed_out(process, refs, timeout)
    load = process.load
    for ref in refs:
        if ref._kind == ERROR:
            load(ref)
    return [load(ref) for ref in refs]


def _not_there(process: Any, refs: list[ObjectRef[Any]], timeout: float | None) -> Exception:
    if process.closed:
        return RuntimeError("the session was shut down while ray.get waited")
    return _timed_out(process, refs, timeout)


def _timed_out(process: Any, refs: list[ObjectRef[Any]], timeout: float | None) -> Exception:
    from skate.exceptions import GetTimeoutError  # only errors need the tree

    missing = [ref for ref in refs if ref._kind == PENDING]
    first = missing[0]
    text = (
        f"Get timed out: some object(s) not ready. {len(missing)} of {len(refs)} values are not available "
        f"after {timeout} s"
    )
    reason = why(process, first._id) if timeout else ""
    if reason:
        text += f"; the first still missing: {reason}"
    where = site_text(first._site)
    return GetTimeoutError(text + (f"; submitted at {where}" if where else ""))


def wait(
    ray_waitables: Any, *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]:
    """Wait until some of the refs are ready; return a list of the ready refs and a list of the others.

    Both lists keep the order of `ray_waitables`. A ref whose task failed counts as ready.

    Args:
        ray_waitables: A list of ObjectRefs and ObjectRefGenerators without duplicates.
        num_returns: The number of refs to wait for, 1 by default; also the maximum length of the first list.
        timeout: The maximum number of seconds to wait; 0 does not wait, None (the default) waits without a limit.
        fetch_local: Accepted for compatibility, and ignored.

    Raises:
        TypeError: `ray_waitables` is not a list of refs and generators.
        ValueError: it has duplicates, `num_returns` is out of range, or `timeout` is negative.
    """
    refs = ray_waitables
    kinds = _checked_waitables(refs, num_returns)
    if not refs:
        return [], []
    process = session.current()
    if timeout is not None and timeout < 0:
        raise ValueError(f"The 'timeout' argument must be nonnegative, a number of seconds; got {timeout}")
    with process.lock:
        process._check_open()
        if ObjectRefGenerator in kinds:
            return _wait_mixed(process, refs, num_returns, timeout)
        for ref in refs:
            if ref._kind:
                if ref._kind == UNKNOWN or ref._process is not process:
                    process.ask_for(ref)
                elif num_returns == 1:
                    rest = refs.copy()
                    del rest[refs.index(ref)]
                    _unique[0] = (id(rest), len(rest))
                    return [ref], rest
        found = sum(map(bool, map(_kind_of, refs)))
        if found < num_returns:
            found = _wait_for_some(process, refs, num_returns - found, timeout)
        return _split(refs, [bool(ref._kind) for ref in refs], num_returns)


def _wait_for_some(process: Any, refs: list[ObjectRef[Any]], missing: int, timeout: float | None) -> int:
    """Wait until `missing` more refs are ready, counting arrivals instead of checking every ref each time."""
    arrived = 0

    def one() -> None:
        nonlocal arrived
        arrived += 1

    waiting = [ref for ref in refs if ref._kind == PENDING]
    for ref in waiting:
        if ref._waiters is None:
            ref._waiters = [one]
        else:
            ref._waiters.append(one)
    try:
        wait_blocked(process, lambda: arrived >= missing, timeout, refs, len(refs) - len(waiting) + missing)
    finally:
        for ref in waiting:
            if ref._waiters is not None:
                ref._waiters.remove(one)
                if not ref._waiters:
                    ref._waiters = None
    return arrived


def _split(refs: Sequence[Any], states: Sequence[bool], num_returns: int) -> tuple[list[Any], list[Any]]:
    ready: list[Any] = []
    rest: list[Any] = []
    for ref, state in zip(refs, states, strict=True):
        if state and len(ready) < num_returns:
            ready.append(ref)
        else:
            rest.append(ref)
    return ready, rest


def _wait_mixed(
    process: Any, refs: list[Any], num_returns: int, timeout: float | None
) -> tuple[list[Any], list[Any]]:
    for ref in refs:
        if type(ref) is ObjectRef and ref._kind != REMOTE:
            process.ask_for(ref)

    def state(ref: Any) -> bool:
        return bool(ref._kind) if type(ref) is ObjectRef else ref._stream.moved()

    wait_blocked(process, lambda: sum(map(state, refs)) >= num_returns, timeout, refs, num_returns)
    return _split(refs, [state(ref) for ref in refs], num_returns)


#: Identity and length of the list that `wait` last returned, so that the next `wait` in a loop can skip the check.
_unique: list[tuple[int, int]] = [(0, 0)]


def _checked_waitables(refs: Any, num_returns: int) -> set[type]:
    if isinstance(refs, (ObjectRef, ObjectRefGenerator)):
        raise TypeError(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got a single ray.ObjectRef or "
            "ray.ObjectRefGenerator; use ray.wait([ref])"
        )
    if not isinstance(refs, list):
        raise TypeError(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got "
            f"{type(refs)}: {refs!r:.80}"
        )
    kinds = set(map(type, refs))
    if not kinds <= _WAITABLE:
        bad = next(ref for ref in refs if type(ref) not in (ObjectRef, ObjectRefGenerator))
        raise _not_a_ref(bad, "wait")
    if (id(refs), len(refs)) != _unique[0] and len(set(map(id, refs))) != len(refs):
        raise ValueError(
            "Wait requires a list of unique ray_waitables, but this one has duplicates; remove them, for "
            "example with list(dict.fromkeys(refs))"
        )
    if isinstance(num_returns, bool) or not isinstance(num_returns, int):
        raise TypeError(f"num_returns of ray.wait must be an integer, got {num_returns!r}")
    if refs and num_returns <= 0:
        raise ValueError(
            f"Invalid number of objects to return {num_returns}: num_returns of ray.wait must be >= 1"
        )
    if refs and num_returns > len(refs):
        raise ValueError(
            "num_returns cannot be greater than the number of ray_waitables: "
            f"it is {num_returns}, but {len(refs)} were given"
        )
    return kinds


def put(value: Any, *, _owner: Any = None, _tensor_transport: Any = None) -> ObjectRef[Any]:
    """Store a value and return a ref to it, so that several tasks can use it without packing it again.

    Args:
        value: Any value that can be pickled, except an ObjectRef.

    Raises:
        TypeError: `value` is an ObjectRef, or cannot be pickled; the message names the part that cannot.
    """
    if type(value) is ObjectRef:
        raise TypeError(
            "Calling 'put' on an ray.ObjectRef is not allowed, because it already refers to a value; pass the "
            "ref itself on, or "
            "put a list that contains it"
        )
    if _owner is not None:
        raise ValueError(
            "the _owner argument of ray.put has been removed; a value may outlive the process that puts it"
        )
    if _tensor_transport is not None:
        wanted = option_values.tensor_transport("_tensor_transport", _tensor_transport)
        if wanted in option_values.TWO_SIDED:
            raise ValueError(
                f"ray.put() is not supported for two-sided RDT transport {wanted!r}. Put the value without a transport, or "
                f"return it from a method with @ray.method(tensor_transport={wanted!r})"
            )
        if wanted is not None and wanted not in option_values.THROUGH_STORE:
            from skate.client.tensor import tensors  # only values with tensors elsewhere need it

            return tensors.put(session.current(), value, wanted)
    process = session.current()
    try:
        ref = process.store(value)
    except (TypeError, AttributeError, ValueError) as error:
        raise _cannot_put(value, error) from error
    except Exception as error:  # PicklingError, and anything that a user's __reduce__ raises
        if type(error).__module__.startswith("skate") or process.closed:
            raise
        raise _cannot_put(value, error) from error
    if RECORD_SITES or ref._kind == ARENA:
        frame = sys._getframe(1)
        ref._site = (frame.f_code, frame.f_lineno)
    return ref


def _cannot_put(value: Any, error: Exception) -> Exception:
    from skate.wire.culprit import explain  # only errors need it

    return TypeError(
        f"Could not serialize the put value: {explain(value, 'value')}\n({type(error).__name__}: {error})"
    )


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel a task: end a queued task immediately, and interrupt a running one.

    Args:
        ray_waitable: An ObjectRef or ObjectRefGenerator that the task returned.
        force: Kill the worker process of a running task instead of interrupting the task; False by default.
        recursive: Also cancel the tasks that this task has started; True by default.

    Raises:
        TypeError: `ray_waitable` is neither a ref nor a generator.
        ValueError: `force` is True and the task is an actor method.
    """
    if isinstance(ray_waitable, ObjectRefGenerator):
        task_id = ray_waitable._stream.task_id
    elif isinstance(ray_waitable, ObjectRef):
        from skate.core.ids import task_of  # only users need id objects

        task_id = task_of(ray_waitable._id)
    else:
        raise TypeError(
            f"ray.cancel() only supported for object refs and generators, but got a {type(ray_waitable).__name__}; to end "
            "an actor, use ray.kill(actor)"
        )
    process = session.current()
    if force and _runs_as_method(task_id):
        raise ValueError(
            "force=True is not supported for actor tasks, because it would kill the whole actor; to end an actor, use "
            "ray.kill(actor)"
        )
    with process.lock:
        process.send(m.Cancel(m.CANCEL, task_id, force, recursive))
        process.link.flush()


def _runs_as_method(task_id: bytes) -> bool:
    """Return True if a task in progress is a call of a method."""
    rows = session.current().request("rows", "tasks_in_progress", {"task": task_id})
    return any(row["kind"] == METHOD for row in rows)
