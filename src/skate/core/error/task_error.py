"""RayTaskError: a remote exception, raised here as an instance of its own class as well.

In Ray, ``except ValueError`` and ``except RayTaskError`` both catch an error that a task raised. To allow
this, a class that derives from both is made at run time; its instance, the *twin*, is filled without
running the user's constructor. Public as ``skate.exceptions.RayTaskError``.
"""

from __future__ import annotations

import os
from types import new_class
from weakref import WeakValueDictionary

from skate.core.error import exception_state
from skate.protocol.values import LOOPBACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    _Parts = tuple[type, tuple[Any, ...], dict[str, Any], dict[str, Any]]


_INPUT_FAILED = "  At least one of the input arguments for this task could not be computed:\n"


class RayError(Exception):
    """Base class of all errors that Skate itself raises."""

    __module__ = "skate.exceptions"

    def __reduce__(self) -> tuple[Any, ...]:
        # BaseException's default calls the class with ``args``, which misses keyword arguments.
        return _restore, (type(self), self.args), dict(self.__dict__)

    def to_bytes(self) -> bytes:
        """Return the error as bytes for `from_bytes`: the exception, and its text for readers that cannot unpickle it."""
        import pickle  # rarely needed
        import traceback  # rarely needed

        text = "".join(traceback.format_exception(type(self), self, self.__traceback__))
        return pickle.dumps((pickle.dumps(self), text))

    @staticmethod
    def from_bytes(b: bytes) -> RayError:
        """Return the error that `to_bytes` wrote, or an UnserializableException with its text if it cannot be read.

        Unpickling runs code: pass only trusted bytes.
        """
        import pickle  # rarely needed

        blob, text = pickle.loads(b)
        try:
            error: RayError = pickle.loads(blob)
        except Exception:  # the error's class is user code and may do anything
            return UnserializableException(text)
        return error


def _restore(cls: type[RayError], args: tuple[Any, ...]) -> BaseException:
    return exception_state.make(cls, args, {}, {})


class UnserializableException(RayError):
    """A remote exception could not be read here; the text is what its sender wrote of it."""

    __module__ = "skate.exceptions"

    def __init__(self, original_stack_trace: str) -> None:
        self._original_stack_trace = original_stack_trace

    def __str__(self) -> str:
        return (
            "A remote exception could not be read in this process (is its module installed here?). "
            f"Its sender's description:\n{self._original_stack_trace}"
        )


class RayTaskError(RayError):
    """A task or actor call raised an exception.

    ``ray.get`` raises it by `as_instanceof_cause`: as an instance both of this class and of the class of the
    remote exception, so ``except ValueError`` and ``except RayTaskError`` both work.

    Attributes: cause (the remote exception), function_name, traceback_str (the remote traceback, user frames
    only), proctitle, pid, ip, actor_repr, actor_id (where it ran), submit_site ("file:line" of the
    ``.remote()`` call, or None).
    """

    __module__ = "skate.exceptions"

    cause: BaseException

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
        *,
        submit_site: str | None = None,
    ) -> None:
        # A task that propagates another task's error fails with the same original cause, not a nested one.
        if isinstance(cause, RayTaskError):
            cause = cause.cause
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle or f"ray::{short_name(function_name)}"
        self.pid = os.getpid() if pid is None else pid
        self.ip = ip or LOOPBACK
        self.actor_repr = actor_repr
        self.actor_id = actor_id
        self.submit_site = submit_site
        self.args = (function_name, traceback_str, cause, self.proctitle, self.pid, self.ip)

    @classmethod
    def for_failed_input(
        cls,
        function_name: str,
        upstream: BaseException,
        *,
        submit_site: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
    ) -> RayTaskError:
        """Return the error of a task that never ran because one of its arguments failed with `upstream`.

        It names the process where an exception of user code was raised, and else `pid` and `ip`.
        """
        text = _INPUT_FAILED + "\n".join("  " + line for line in _text_of(upstream).splitlines())
        if isinstance(upstream, RayTaskError):
            # The twin of a user's exception may shadow these names with its own fields.
            origin = getattr(upstream, "_origin", upstream)
            return cls(
                function_name, text, origin.cause, pid=origin.pid, ip=origin.ip, submit_site=submit_site
            )
        return cls(function_name, text, upstream, pid=pid, ip=ip, submit_site=submit_site)

    @property
    def input_failed(self) -> bool:
        """True if the task did not run, because one of its arguments failed."""
        origin = getattr(self, "_origin", self)  # the twin of a user's exception may shadow these names
        return str(origin.traceback_str).startswith(_INPUT_FAILED)

    def as_instanceof_cause(self) -> RayTaskError:
        """Return a fresh exception that is an instance of this class and of the cause's class.

        It has the cause's attributes, and the cause as its only argument. If the two classes cannot be combined
        (the cause's class is final, say), or if raising the cause's class would end the caller (SystemExit,
        KeyboardInterrupt), return this error itself.
        """
        cause_class = type(self.cause)
        if issubclass(RayTaskError, cause_class) or issubclass(cause_class, (SystemExit, KeyboardInterrupt)):
            return self
        try:
            return _twin(self)
        except Exception as why:
            # The cause's class is user code and may refuse subclasses or instances in any way.
            # The error must still arrive, so a plain RayTaskError says why.
            self.refusal = f"{type(why).__name__}: {why}"
            return self

    make_dual_exception_instance = as_instanceof_cause

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        cause = state.pop("cause")
        # The cause's constructor may need arguments that were not kept, so pickle its parts, unless it reduces itself.
        parts = cause if exception_state.reduces_itself(type(cause)) else exception_state.parts_of(cause)
        return _restore_error, (type(self), state, parts)

    def __str__(self) -> str:
        where = f"pid={self.pid}, ip={self.ip}"
        if self.actor_id is not None:
            where += f", actor_id={self.actor_id}"
        if self.actor_repr is not None:
            where += f", repr={self.actor_repr}"
        lines = [f"{self.proctitle}() ({where})"]
        if self.submit_site:
            lines.append(f"  submitted at {self.submit_site}")
        refusal = getattr(self, "refusal", None)
        if refusal:
            lines.append(
                f"  catch it as RayTaskError and read .cause: {type(self.cause).__name__} "
                f"cannot be subclassed ({refusal})"
            )
        lines.append(self.traceback_str.removeprefix("Traceback (most recent call last):\n").rstrip("\n"))
        return "\n".join(lines)


def short_name(qualified: str) -> str:
    """Return the name of a function without its enclosing functions, as in titles of tasks."""
    return qualified.rpartition("<locals>.")[2]


def _text_of(exc: BaseException) -> str:
    return str(exc) if isinstance(exc, RayTaskError) else f"{type(exc).__name__}: {exc}"


# Weak values: a class made in a notebook cell can be freed with its last exception.
_twin_classes: WeakValueDictionary[type, type[RayTaskError]] = WeakValueDictionary()


def _twin_class(cause_class: type[BaseException]) -> type[RayTaskError]:
    name = f"RayTaskError({cause_class.__name__})"

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(
            __module__="skate.exceptions",
            __qualname__=name,
            __doc__=f"A {cause_class.__name__} raised by a task or actor call.",
            __init__=_twin_init,
            __str__=_twin_str,
            __reduce__=_twin_reduce,
            __getattr__=_twin_getattr,
            # A dataclass exception sets __hash__ to None, which breaks code that keeps exceptions in sets.
            __hash__=BaseException.__hash__,
            cause=property(_twin_cause, doc="The remote exception."),
        )

    twin: type[RayTaskError] = new_class(name, (RayTaskError, cause_class), {}, fill)
    return twin


def _twin(error: RayTaskError) -> RayTaskError:
    cause = error.cause
    cause_class = type(cause)
    twin_class = _twin_classes.get(cause_class)
    if twin_class is None:
        twin_class = _twin_classes[cause_class] = _twin_class(cause_class)
    # If both have a field (a user's `pid`), code that catches the user's class expects the user's.
    state = {**error.__dict__, **exception_state.read_dict(cause), "_origin": error}
    # The remote traceback ends with the cause's notes; as notes of the twin they would be printed twice.
    notes = state.get("__notes__")
    if (
        isinstance(notes, list)
        and notes
        and error.traceback_str.rstrip("\n").endswith("\n".join(map(str, notes)))
    ):
        del state["__notes__"]
    twin = exception_state.make(
        twin_class, exception_state.new_args_of(cause), exception_state.read_fields(cause), state
    )
    BaseException.args.__set__(twin, (cause,))  # type: ignore[attr-defined]
    assert isinstance(twin, RayTaskError)
    return twin


def _origin_of(twin: RayTaskError) -> RayTaskError:
    origin: RayTaskError = object.__getattribute__(twin, "__dict__")["_origin"]
    return origin


def _twin_init(self: RayTaskError, *args: Any, **kwargs: Any) -> None:
    """Do nothing: the state is set without a constructor."""


def _twin_str(self: RayTaskError) -> str:
    return str(_origin_of(self))


def _twin_cause(self: RayTaskError) -> BaseException:
    return _origin_of(self).cause


def _twin_getattr(self: RayTaskError, name: str) -> Any:
    # Python itself looks up special names (notes, copy hooks); they must stay the twin's own.
    if name.startswith("__") or name == "_origin":
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return getattr(_origin_of(self).cause, name)


def _twin_reduce(self: RayTaskError) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return _restore_twin, (_origin_of(self), list(getattr(self, "__notes__", ())))


def _restore_twin(origin: RayTaskError, notes: list[str]) -> RayTaskError:
    twin = origin.as_instanceof_cause()
    if notes:
        object.__getattribute__(twin, "__dict__")["__notes__"] = notes
    return twin


def _restore_error(
    cls: type[RayTaskError], state: dict[str, Any], cause: BaseException | _Parts
) -> RayTaskError:
    if isinstance(cause, tuple):
        cause = exception_state.make(*cause)
    args = (
        state["function_name"],
        state["traceback_str"],
        cause,
        state["proctitle"],
        state["pid"],
        state["ip"],
    )
    error = exception_state.make(cls, args, {}, {**state, "cause": cause})
    assert isinstance(error, RayTaskError)
    return error
