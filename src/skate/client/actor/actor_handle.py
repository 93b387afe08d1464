"""Handles to actors, and the methods that are called through them."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_descriptor import ActorDescriptor
from skate.client.actor.actor_hold import ActorHold
from skate.client.object.generators import open_gathered, open_stream
from skate.client.session import session
from skate.client.task import exports, options, submission
from skate.client.task.remote_function import (
    CALL_DECORATOR,
    decorate_call,
    parameter_names,
    return_fields,
)
from skate.client.tensor import graphs, made_refs, tensor_transports
from skate.protocol.fields import TemplateFields
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

#: A concurrency group that every actor has. Its calls run beside all others (`worker/system_calls.py`).
SYSTEM_GROUP = "_ray_system"
BUILT_IN_METHODS = ("__ray_ready__", "__ray_terminate__", "__ray_call__")


class ActorHandle:
    """A reference to a living actor; its methods are called with `handle.method.remote(...)`."""

    #: For annotations that name the class of the actor: `ActorHandle[Counter]`.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(
        self,
        actor_id: bytes,
        descriptor: ActorDescriptor,
        hold: ActorHold | None,
        max_pending: int = -1,
        weak: bool = False,
    ) -> None:
        state = self.__dict__
        state["_skate_id"] = actor_id
        state["_skate_descriptor"] = descriptor
        state["_skate_hold"] = hold
        state["_skate_max_pending"] = max_pending
        state["_skate_states"] = {}
        #: A weak handle, and any handle made from it, does not keep the actor alive.
        state["_skate_weak"] = weak

    def __getattr__(self, name: str) -> Any:
        states: dict[str, _MethodState] = self.__dict__["_skate_states"]
        state = states.get(name)
        if state is None:
            state = states[name] = self._new_state(name)
        return state.kind(self, state)

    def _new_state(self, name: str) -> _MethodState:
        if name in BUILT_IN_METHODS:
            return _MethodState(name, {"num_returns": 1}, None)
        descriptor: ActorDescriptor = self.__dict__["_skate_descriptor"]
        method_options = descriptor.methods.get(name)
        if method_options is None:
            raise AttributeError(_no_method(descriptor, name))
        return _MethodState(name, method_options, descriptor.signatures.get(name))

    def _skate_public(self) -> tuple[Any, ...]:
        """Return the data from which another process builds a handle: descriptor and limits."""
        return self._skate_descriptor, self._skate_max_pending

    @property
    def _actor_id(self) -> Any:
        from skate.core.ids import ActorID  # only users need id objects

        return ActorID(self._skate_id)

    _ray_actor_id = _actor_id

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._skate_descriptor.methods, *BUILT_IN_METHODS})

    def __reduce__(self) -> Any:
        met = values.collector()
        if met is not None and not self._skate_weak:
            met.append(self)
        return _rebuild_handle, (self._skate_id, *self._skate_public(), self._skate_weak)

    def __copy__(self) -> ActorHandle:
        return self

    def __deepcopy__(self, memo: Any) -> ActorHandle:
        return self

    def __hash__(self) -> int:
        return hash(self._skate_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._skate_id == self._skate_id

    def __repr__(self) -> str:
        return f"Actor({self._skate_descriptor.class_name}, {self._skate_id.hex()})"


def _no_method(descriptor: ActorDescriptor, name: str) -> str:
    import difflib  # 4 ms, and only errors need it

    known = sorted(each for each in descriptor.methods if not each.startswith("__"))
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return (
        f"the actor class {descriptor.class_name} has no method {name!r}, so its handle has no attribute {name!r}{hint} "
        f"Read the actor's attributes through its methods, which are: {', '.join(known) or 'none'}"
    )


class _MethodState:
    """Shared state of the calls of a method through one handle; does not keep the handle alive."""

    __slots__ = (
        "name",
        "options",
        "signature",
        "process",
        "key",
        "exported",
        "returns",
        "least",
        "most",
        "transport",
        "backpressure",
        "actor_id",
        "class_name",
        "kind",
    )

    def __init__(self, name: str, method_options: dict[str, Any], signature: Any) -> None:
        self.name = name
        self.options = method_options
        self.signature = signature
        self.process: Process | None = None
        self.key = b""
        self.returns: Any = 1
        #: How tensors in the result travel; None, the usual case, is the object store.
        self.transport: str | None = method_options.get("tensor_transport")
        #: True if a generator waits for the reader of its values.
        self.backpressure = False
        self.kind: type[ActorMethod] = DecoratedMethod if CALL_DECORATOR in method_options else ActorMethod
        self.least = 0 if signature is None else signature.least
        self.most = 1 << 30 if signature is None else signature.most

    def parameters(self) -> list[str]:
        """Return the names of the method's parameters, for error messages."""
        return parameter_names(self.signature)

    def export(self, process: Process, handle: ActorHandle) -> None:
        """Register the method at the node of a session."""
        if process.closed or (handle._skate_hold is not None and handle._skate_hold.process is not process):
            raise RuntimeError(
                f"{handle!r} belongs to a session that has ended; actors end with shutdown(); start it again"
            )
        method_options = self.options
        group = method_options.get("concurrency_group") or ""
        if group and group != SYSTEM_GROUP and group not in handle._skate_descriptor.groups:
            known = ", ".join(handle._skate_descriptor.groups) or "none"
            raise ValueError(
                f"{handle._skate_descriptor.class_name} has no concurrency group {group!r} (it has: {known}); declare it in "
                f"@ray.remote(concurrency_groups={{{group!r}: n}})"
            )
        returns = method_options.get("num_returns")
        if returns is None:
            returns = 1
        if method_options.get("tensor_transport") and returns != 1:
            raise ValueError(
                f"Currently, methods with tensor_transport={method_options['tensor_transport']} only support 1 return value. "
                f"{self.name} has num_returns={returns!r}; make it one"
            )
        retry = method_options.get("retry_exceptions") or False
        fields: TemplateFields = {
            "name": method_options.get("name") or f"{handle._skate_descriptor.short_name}.{self.name}",
            "kind": "method",
            "method": self.name,
            "function": b"",
            "group": group,
            "max_task_retries": method_options.get("max_task_retries"),
            "retry_exceptions": retry if isinstance(retry, bool) else values.pack_function(retry)[0],
            **return_fields(returns),
        }
        if self.transport and tensor_transports.is_direct(self.transport):
            fields["tensor_transport"] = self.transport
        backpressure = method_options.get("_generator_backpressure_num_objects")
        if backpressure is not None and backpressure > 0:
            fields["backpressure"] = backpressure
            self.backpressure = True
        if handle._skate_descriptor.stream_limit:
            fields["actor_backpressure"] = handle._skate_descriptor.stream_limit
            self.backpressure = True
        per_yield = method_options.get("_num_objects_per_yield") or 1
        if per_yield > 1:
            fields["per_yield"] = per_yield
        with process.lock:
            self.exported = exports.export_template(process, fields)
            self.key = self.exported.key
        self.returns = returns if isinstance(returns, str) else fields["returns"]
        self.actor_id, self.class_name = handle._skate_id, handle._skate_descriptor.class_name
        self.process = process


class ActorMethod:
    """A method of an actor: `.remote(...)` calls it, `.options(...)` changes its options."""

    __slots__ = ("_handle", "_state")

    def __init__(self, handle: ActorHandle, state: _MethodState) -> None:
        self._handle = handle
        self._state = state

    @property
    def _method_name(self) -> str:
        return self._state.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor methods cannot be called directly, and {self._full_name()} is one; call "
            f"handle.{self._state.name}.remote()"
        )

    def _full_name(self) -> str:
        return f"{self._handle._skate_descriptor.class_name}.{self._state.name}"

    def options(self, **method_options: Any) -> ActorMethod:
        """Return the method with other options."""
        state = self._state
        yields = state.name in self._handle._skate_descriptor.generators
        merged = options.method_options(method_options, decorator=False, base=state.options, generator=yields)
        return type(self)(self._handle, _MethodState(state.name, merged, state.signature))

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: dict[str, Any] | None = None, **method_options: Any
    ) -> Any:
        """Call the method with other options: the form of `.options(...).remote(...)` for arguments in variables."""
        called = self.options(**method_options) if method_options else self
        return called.remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node of a lazy graph that calls this method."""
        if self._state.signature is not None:
            self._state.signature.check_bind(args, kwargs)
        return graphs.bind_method(self._handle, self, self._state.name, args, kwargs, self._state.options)

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method; return a ref to its result immediately."""
        state = self._state
        if (kwargs or not state.least <= len(args) <= state.most) and state.signature is not None:
            state.signature.check(args, kwargs)
        process = session.current()
        handle = self._handle
        if state.process is not process:
            state.export(process, handle)
        if state.transport is not None:
            tensor_transports.before_call(handle, state.transport, state.name)
        packed = submission.pack_arguments(process, args, kwargs, state)
        if packed[1] and made_refs.made:
            tensor_transports.check_receiver(handle, packed[1])
        site = submission.call_site(2)
        returns = state.returns
        limit = handle._skate_max_pending
        if limit > 0:
            self._count_pending(handle._skate_hold, limit)
        with process.lock:
            if returns == "dynamic":
                return open_gathered(process, handle._skate_id, state.key, packed, site)
            if type(returns) is not int:
                return open_stream(process, handle._skate_id, state.key, packed, site, state.backpressure)
            refs = submission.submit(process, handle._skate_id, state.key, returns, packed, site)
            if limit > 0 and refs:
                _watch(handle._skate_hold, refs[0])
        if returns == 1:
            if state.transport is not None:
                made_refs.made[refs[0]] = made_refs.MadeRef(handle, state.transport)
            return refs[0]
        return refs or None

    def _count_pending(self, hold: ActorHold, limit: int) -> None:
        if hold.waiting >= limit:
            from skate.exceptions import PendingCallsLimitExceeded  # only errors need the tree

            raise PendingCallsLimitExceeded(
                f"{self._full_name()}: the actor has {hold.waiting} calls waiting and max_pending_calls={limit}; wait for "
                "some of them first, or raise the limit"
            )

    def __reduce__(self) -> Any:
        state = self._state
        own = self._handle._new_state(state.name).options
        return _rebuild_method, (self._handle, state.name, None if state.options == own else state.options)

    def __repr__(self) -> str:
        return f"ActorMethod({self._full_name()})"


class DecoratedMethod(ActorMethod):
    """A method with a decorator that changes how its calls are submitted."""

    __slots__ = ()

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method through its decorator."""
        return decorate_call(self._state.options[CALL_DECORATOR], super().remote, *args, **kwargs)


def _watch(hold: ActorHold, ref: Any) -> None:
    """Count a call of an actor with `max_pending_calls` until it is answered. The lock is held."""
    hold.waiting += 1

    def answered() -> None:
        hold.waiting -= 1

    if ref._kind:
        answered()
    else:
        ref._waiters = [*(ref._waiters or ()), answered]


def _rebuild_handle(
    actor_id: bytes, descriptor: ActorDescriptor, max_pending: int, weak: bool = False
) -> ActorHandle:
    process = session.current_or_none()
    hold = None
    if process is not None:
        if weak:
            hold = ActorHold(actor_id, process)
        else:
            with process.lock:
                hold = process.hold_actor(actor_id, 0)
    return ActorHandle(actor_id, descriptor, hold, max_pending, weak)


def _rebuild_method(handle: ActorHandle, name: str, method_options: dict[str, Any] | None) -> ActorMethod:
    found: ActorMethod = getattr(handle, name)
    return (
        found
        if method_options is None
        else type(found)(handle, _MethodState(name, method_options, found._state.signature))
    )


def own_handle(process: Process) -> ActorHandle:
    """Return a weak handle to the actor that runs in this worker."""
    context = process.context
    template = context.actor_template
    descriptor = ActorDescriptor.of(
        template.load(process), {"concurrency_groups": template.fields.get("groups")}
    )
    return ActorHandle(context.actor_id, descriptor, ActorHold(context.actor_id, process), weak=True)


def handle_from(process: Process, actor_id: bytes, public: bytes) -> ActorHandle:
    """Return a weak handle to a named actor; only its creator's handles keep the actor alive."""
    hold = ActorHold(actor_id, process)
    descriptor, max_pending = values.unpack(public)
    return ActorHandle(actor_id, descriptor, hold, max_pending, weak=True)
