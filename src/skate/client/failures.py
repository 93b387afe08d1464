"""Conversion of errors on the wire, as (class name, fields), to exceptions."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

from skate.client.object.object_ref import site_text


def to_exception(error: tuple[str, dict[str, Any]], site: Any, process: object) -> BaseException:
    """Return the exception for an error payload. `site` is where the failed call was submitted."""
    from skate import exceptions as e  # only errors need the tree

    name, fields = error
    text = fields.get("message", "")
    where = site_text(site)
    if name == "RayTaskError":
        task_error: BaseException = _task_error(fields, where).as_instanceof_cause()
        return task_error
    if fields.get("through") and name not in ("TaskCancelledError",):
        upstream = to_exception((name, {**fields, "through": ()}), None, process)
        ip = fields.get("ip") or getattr(process, "node_ip_address", None)
        return e.RayTaskError.for_failed_input(
            fields["through"][-1], upstream, submit_site=where, pid=fields.get("pid"), ip=ip
        ).as_instanceof_cause()
    if where:
        text = f"{text}\n  submitted at {where}" if text else text
    if name == "ActorDiedError":
        return _actor_died(fields, text)
    if name == "ActorUnavailableError":
        return e.ActorUnavailableError(text, fields.get("actor_id"))
    if name == "TaskCancelledError":
        message = f"{fields.get('name', 'the task')} was cancelled" + (
            f"; submitted at {where}" if where else ""
        )
        return e.TaskCancelledError(fields["task_id"].hex() if "task_id" in fields else None, message)
    if name in ("ValueError", "TypeError", "RuntimeError"):
        return {"ValueError": ValueError, "TypeError": TypeError, "RuntimeError": RuntimeError}[name](text)
    if name == "ObjectReconstructionFailedError":
        return e.ObjectReconstructionFailedError(
            fields["message"], fields["reason"], fields["reason_message"], call_site=where or ""
        )
    if name in ("ObjectLostError", "OwnerDiedError", "ObjectFreedError", "ReferenceCountingAssertionError"):
        lost: e.ObjectLostError = getattr(e, name)(fields["message"], call_site=where or "")
        lost.detail = fields.get("detail", "")
        return lost
    cls = getattr(e, name, None)
    if cls is None:
        return e.RaySystemError(f"{name}: {text}")
    made: BaseException = cls(text)
    return made


def unreadable(error: Exception) -> BaseException:
    """Return the error of a value that cannot be unpickled: a RaySystemError that is also the exception of user code."""
    from skate import exceptions as e  # only errors need the tree
    from skate.core.error import exception_state

    if isinstance(error, e.RayError):
        return error
    text = "".join(traceback.format_exception(error))
    error.__traceback__ = None  # its frames refer to the value, and would keep its memory alive
    try:
        name = f"RaySystemError({type(error).__name__})"
        fields = {"__module__": "skate.exceptions", "__reduce__": _reduce_unreadable}
        cls = type(name, (e.RaySystemError, type(error)), fields)
        state = {**exception_state.read_dict(error), "client_exc": error, "traceback_str": text}
        args = exception_state.new_args_of(error)
        return exception_state.make(cls, args, exception_state.read_fields(error), state)
    except Exception:  # user classes may refuse to be combined, with any exception
        return e.RaySystemError(error, text)


def _reduce_unreadable(self: Any) -> Any:
    return unreadable, (self.client_exc,)


def _task_error(fields: dict[str, Any], where: str | None) -> Any:
    from skate import exceptions as e  # only errors need the tree
    from skate.wire.failures import unpack_exception

    cause = unpack_exception(fields["cause"])
    through = fields.get("through") or ()
    error = e.RayTaskError(
        fields["function"],
        fields["traceback"],
        cause,
        pid=fields.get("pid"),
        ip=fields.get("ip"),
        actor_repr=fields.get("actor_repr"),
        actor_id=fields.get("actor"),
        submit_site=None if through else where,
    )
    if through:
        return e.RayTaskError.for_failed_input(through[-1], error.as_instanceof_cause(), submit_site=where)
    return error


def _actor_died(fields: dict[str, Any], text: str) -> BaseException:
    from skate import exceptions as e  # only errors need the tree

    init = fields.get("init_error")
    if init is not None:
        name, inner = init
        cause = _task_error(inner, None) if name == "RayTaskError" else to_exception(init, None, None)
        return e.ActorDiedError(cause if isinstance(cause, e.RayTaskError) else str(cause))
    actor_id = fields.get("actor_id")
    if actor_id is None:
        return e.ActorDiedError(text)
    return e.ActorDiedError(
        e.ActorDeath(
            text,
            actor_id=actor_id.hex(),
            class_name=fields.get("class_name", ""),
            name=fields.get("name", ""),
            pid=fields.get("pid", 0),
            node_id=fields.get("node", ""),
            node_ip_address=fields.get("ip", ""),
            reason=fields.get("reason", ""),
        )
    )


def print_unhandled(error: tuple[str, dict[str, Any]], site: Any) -> None:
    """Print an error that was never fetched, unless RAY_IGNORE_UNHANDLED_ERRORS is set."""
    if os.environ.get("RAY_IGNORE_UNHANDLED_ERRORS") == "1":
        return
    shown = to_exception(error, site, None)
    sys.stderr.write(f"Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): {shown}\n")


def as_of_a_task(name: str, error: BaseException, ip: str) -> BaseException:
    """Return the error that `get` would raise if a task of that name, on the node with this address, had raised this one."""
    from skate.exceptions import RayTaskError  # only errors need these
    from skate.wire.failures import format_remote_traceback

    if isinstance(error, RayTaskError):
        return error
    text = format_remote_traceback(error)
    return RayTaskError(name, text, error, ip=ip).as_instanceof_cause()
