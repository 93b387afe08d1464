"""Actors as their users see them: classes, handles, methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.client import exports, graphs, options, session, signatures, submission
from skate.client.actor_descriptor import METHOD_OPTIONS, ActorDescriptor
from skate.client.actor_hold import ActorHold
from skate.client.generators import open_stream
from skate.client.remote_function import parameter_names, return_fields
from skate.core import messages as m
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

BUILT_IN_METHODS = ("__ray_ready__", "__ray_terminate__", "__ray_call__")
ASYNC_CONCURRENCY = 1000


class ActorClass:
    """A class whose instances live in processes of their own: `C.remote(...)` returns a handle, at once."""

    def __init__(self, cls: type, given: dict[str, Any]) -> None:
        self._cls = cls
        self._name = cls.__qualname__
        self._options = options.actor_options(given, decorator=True)
        self._signature: Any = None
        self._definition: Any = None
        self._descriptor: ActorDescriptor | None = None
        self.__module__ = cls.__module__
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__doc__ = cls.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._name} is an actor class and cannot be instantiated directly; call {self._name}.remote() to start an actor"
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise TypeError(
            f"an actor class cannot be inherited from; inherit from the plain class instead and decorate the result, or "
            f"make the actor class with ray.remote({self._name})"
        )

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor; its constructor runs with these arguments."""
        return self._start(args, kwargs, self._options)

    @property
    def name(self) -> str:
        """What error messages call it."""
        return self._name

    def parameters(self) -> list[str]:
        """Names of the constructor's parameters, for error messages."""
        return parameter_names(self._signature)

    def options(self, **actor_options: Any) -> _ActorCall:
        """The same class with other options, for the actors started through what is returned."""
        return _ActorCall(self, options.actor_options(actor_options, decorator=False, base=self._options))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a lazy graph that starts this actor."""
        return graphs.bind_class(self, args, kwargs, self._options, self._cls)

    def descriptor(self) -> ActorDescriptor:
        """What a handle knows of the class."""
        if self._descriptor is None:
            self._descriptor = ActorDescriptor.of(self._cls, self._options)
        return self._descriptor

    def _start(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: dict[str, Any]) -> ActorHandle:
        if self._signature is None:
            self._signature = signatures.of_class(self._cls, self._name)
        self._signature.check(args, kwargs)
        process = session.current()
        namespace = given.get("namespace") or process.namespace
        name = given.get("name")
        if name and given.get("get_if_exists"):
            found = process.request("reserve_name", namespace, name)
            if found is not None:
                return handle_from(process, *found)
        elif (
            name and process.request("list_named_actors", namespace) and self._taken(process, namespace, name)
        ):
            from skate.exceptions import ActorAlreadyExistsError  # only errors need the tree

            raise ActorAlreadyExistsError(
                f"an actor named {name!r} already lives in namespace {namespace!r}; choose another name, or pass "
                "get_if_exists=True to use that one"
            )
        descriptor = self.descriptor()
        packed = submission.pack_arguments(process, args, kwargs, self)
        fields, definition = self._fields(process, given, descriptor)
        blob, deps, met = packed
        with process.lock:
            exported = exports.export_template(process, fields, exports.export_function(process, *definition))
            dep_ids = tuple((place, process.escape(ref)) for place, ref in deps)
            held = tuple(process.escape(inner) for inner in met)
            actor_id = process.next_actor_id()
            hold = process.hold_actor(actor_id, 1)
            handle = ActorHandle(actor_id, descriptor, hold, given.get("max_pending_calls") or -1)
            parent = b"" if process.context is None else process.context.task_id()
            life = {
                "actor_name": name or "",
                "namespace": namespace,
                "detached": given.get("lifetime") == "detached",
                "max_restarts": given.get("max_restarts") or 0,
                "max_task_retries": given.get("max_task_retries") or 0,
                "concurrent": fields["concurrent"],
                "handle": values.pack(handle.public()).joined() if name else b"",
            }
            process.send((m.CREATE_ACTOR, actor_id, exported.key, blob, dep_ids, held, parent, life))
            process.link.flush()
        if name and given.get("get_if_exists"):
            # Somebody else may have asked at the same time, and have been first.
            found = process.request("reserve_name", namespace, name)
            if found is not None and found[0] != actor_id:
                return handle_from(process, *found)
        return handle

    @staticmethod
    def _taken(process: Process, namespace: str, name: str) -> bool:
        return (namespace, name) in {tuple(each) for each in process.request("list_named_actors", namespace)}

    def _fields(
        self, process: Process, given: dict[str, Any], descriptor: ActorDescriptor
    ) -> tuple[dict[str, Any], tuple[Any, ...]]:
        if self._definition is None:
            self._definition = exports.pack_definition(self._cls, self._name)
        blob, met, function_key = self._definition
        concurrency = given.get("max_concurrency")
        groups = given.get("concurrency_groups") or {}
        if concurrency is None:
            concurrency = ASYNC_CONCURRENCY if descriptor.is_async else 1
        fields = exports.common_fields(process, given, self._name, function_key, "actor")
        fields |= {
            "kind": "actor",
            "max_concurrency": concurrency,
            "groups": dict(groups),
            "is_async": descriptor.is_async,
            "concurrent": descriptor.is_async
            or concurrency > 1
            or bool(groups)
            or bool(given.get("allow_out_of_order_execution")),
            "returns": 1,
        }
        return fields, (blob, met, function_key)

    def __reduce__(self) -> Any:
        return _rebuild_class, (self._cls, self._options)

    def __repr__(self) -> str:
        return f"ActorClass({self._name})"


class _ActorCall:
    """An actor class with a set of options: what `.options(...)` returns."""

    def __init__(self, actor_class: ActorClass, given: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = given

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor with these options."""
        return self._actor_class._start(args, kwargs, self._options)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a lazy graph that starts this actor with these options."""
        return graphs.bind_class(self, args, kwargs, self._options, self._actor_class._cls)


class ActorHandle:
    """A reference to a living actor; its methods are called with `handle.method.remote(...)`."""

    def __init__(
        self, actor_id: bytes, descriptor: ActorDescriptor, hold: ActorHold | None, max_pending: int = -1
    ) -> None:
        state = self.__dict__
        state["_actor_id"] = actor_id
        state["_descriptor"] = descriptor
        state["_hold"] = hold
        state["_max_pending"] = max_pending
        state["_states"] = {}

    def __getattr__(self, name: str) -> Any:
        states: dict[str, _MethodState] = self.__dict__["_states"]
        state = states.get(name)
        if state is None:
            state = states[name] = self._new_state(name)
        return ActorMethod(self, state)

    def _new_state(self, name: str) -> _MethodState:
        if name in BUILT_IN_METHODS:
            return _MethodState(name, {"num_returns": 1}, None)
        descriptor: ActorDescriptor = self.__dict__["_descriptor"]
        said = descriptor.methods.get(name)
        if said is None:
            raise AttributeError(_no_method(descriptor, name))
        return _MethodState(name, said, descriptor.signatures.get(name))

    def public(self) -> tuple[Any, ...]:
        """What another process needs to make a handle: descriptor and limits."""
        return self._descriptor, self._max_pending

    @property
    def _ray_actor_id(self) -> Any:
        from skate.core.ids import ActorID  # ids are public faces, not needed to run

        return ActorID(self._actor_id)

    _actor_id_object = _ray_actor_id

    def __reduce__(self) -> Any:
        met = values.collector()
        if met is not None:
            met.append(self)
        return _rebuild_handle, (self._actor_id, *self.public())

    def __copy__(self) -> ActorHandle:
        return self

    def __deepcopy__(self, memo: Any) -> ActorHandle:
        return self

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._actor_id == self._actor_id

    def __repr__(self) -> str:
        return f"Actor({self._descriptor.class_name}, {self._actor_id.hex()})"


def _no_method(descriptor: ActorDescriptor, name: str) -> str:
    import difflib  # 4 ms, and only errors need it

    known = sorted(each for each in descriptor.methods if not each.startswith("__"))
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return (
        f"the actor class {descriptor.class_name} has no method {name!r}{hint} An actor's attributes are read through "
        f"methods of its own; it has: {', '.join(known) or 'none'}"
    )


class _MethodState:
    """What the calls of a method through one handle have in common; it does not keep the handle alive."""

    __slots__ = ("name", "options", "signature", "process", "key", "exported", "returns", "least", "most")

    def __init__(self, name: str, said: dict[str, Any], signature: Any) -> None:
        self.name = name
        self.options = said
        self.signature = signature
        self.process: Process | None = None
        self.key = b""
        self.returns: Any = 1
        self.least = 0 if signature is None else signature.least
        self.most = 1 << 30 if signature is None else signature.most

    def parameters(self) -> list[str]:
        """Names of the method's parameters, for error messages."""
        return parameter_names(self.signature)

    def export(self, process: Process, handle: ActorHandle) -> None:
        """Make the method known to the node of a session."""
        if process.closed or (handle._hold is not None and handle._hold.process is not process):
            raise RuntimeError(
                f"{handle!r} belongs to a session that has ended; actors end with shutdown(), start it again"
            )
        said = self.options
        group = said.get("concurrency_group") or ""
        if group and group not in handle._descriptor.groups:
            known = ", ".join(handle._descriptor.groups) or "none"
            raise ValueError(
                f"{handle._descriptor.class_name} has no concurrency group {group!r} (it has: {known}); declare it in "
                f"@ray.remote(concurrency_groups={{{group!r}: n}})"
            )
        returns = said.get("num_returns")
        if returns is None:
            returns = 1
        retry = said.get("retry_exceptions") or False
        fields = {
            "name": said.get("name") or f"{handle._descriptor.short_name}.{self.name}",
            "kind": "method",
            "method": self.name,
            "function": b"",
            "group": group,
            "max_task_retries": said.get("max_task_retries"),
            "retry_exceptions": retry if isinstance(retry, bool) else values.pack_function(retry)[0],
            **return_fields(returns),
        }
        backpressure = said.get("_generator_backpressure_num_objects")
        if backpressure is not None and backpressure > 0:
            fields["backpressure"] = backpressure
        with process.lock:
            self.exported = exports.export_template(process, fields)
            self.key = self.exported.key
        self.returns = returns if returns == "streaming" else fields["returns"]
        self.process = process


class ActorMethod:
    """A method of an actor: `.remote(...)` calls it, `.options(...)` changes how."""

    __slots__ = ("_handle", "_state")

    def __init__(self, handle: ActorHandle, state: _MethodState) -> None:
        self._handle = handle
        self._state = state

    @property
    def _method_name(self) -> str:
        return self._state.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._full_name()} is a method of an actor and cannot be called directly; call "
            f"handle.{self._state.name}.remote()"
        )

    def _full_name(self) -> str:
        return f"{self._handle._descriptor.class_name}.{self._state.name}"

    def options(self, **method_options: Any) -> ActorMethod:
        """The same method with other options, for the calls made through what is returned."""
        state = self._state
        merged = options.method_options(method_options, decorator=False, base=state.options)
        return ActorMethod(self._handle, _MethodState(state.name, merged, state.signature))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node of a lazy graph that calls this method."""
        return graphs.bind_method(self._handle, self, self._state.name, args, kwargs, self._state.options)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; returns a ref of its result, at once."""
        state = self._state
        if (kwargs or not state.least <= len(args) <= state.most) and state.signature is not None:
            state.signature.check(args, kwargs)
        process = session.current()
        handle = self._handle
        if state.process is not process:
            state.export(process, handle)
        packed = submission.pack_arguments(process, args, kwargs, state)
        site = submission.call_site(2)
        returns = state.returns
        limit = handle._max_pending
        if limit > 0:
            self._count_pending(handle._hold, limit)
        with process.lock:
            if type(returns) is not int:
                return open_stream(process, m.CALL, (handle._actor_id,), state.key, packed, site)
            refs = submission.submit(process, m.CALL, (handle._actor_id,), state.key, returns, packed, site)
            if limit > 0 and refs:
                _watch(handle._hold, refs[0])
        if returns == 1:
            return refs[0]
        return refs or None

    def _count_pending(self, hold: ActorHold, limit: int) -> None:
        if hold.waiting >= limit:
            from skate.exceptions import PendingCallsLimitExceeded  # only errors need the tree

            raise PendingCallsLimitExceeded(
                f"{self._full_name()}: the actor has {hold.waiting} calls waiting and max_pending_calls={limit}; wait for "
                "some of them first, or raise the limit"
            )

    def __repr__(self) -> str:
        return f"ActorMethod({self._full_name()})"


def _watch(hold: ActorHold, ref: Any) -> None:
    """Count a call of an actor with `max_pending_calls` until it is answered; the lock is held."""
    hold.waiting += 1

    def answered() -> None:
        hold.waiting -= 1

    if ref._kind:
        answered()
    else:
        ref._waiters = [*(ref._waiters or ()), answered]


def _rebuild_class(cls: type, given: dict[str, Any]) -> ActorClass:
    return ActorClass(cls, given)


def _rebuild_handle(actor_id: bytes, descriptor: ActorDescriptor, max_pending: int) -> ActorHandle:
    process = session.current_or_none()
    hold = None
    if process is not None:
        with process.lock:
            hold = process.hold_actor(actor_id, 0)
    return ActorHandle(actor_id, descriptor, hold, max_pending)


def handle_from(process: Process, actor_id: bytes, public: bytes) -> ActorHandle:
    """A handle to a named actor; it does not keep the actor alive, the handles of its maker do."""
    hold = ActorHold(actor_id, process)
    descriptor, max_pending = values.unpack(public)
    return ActorHandle(actor_id, descriptor, hold, max_pending)


def method(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Set options of an actor's method: `@ray.method(num_returns=2)`.

    Raises ValueError (also an AssertionError) for an unknown option, TypeError if used bare.
    """
    if args or not kwargs:
        raise AssertionError(
            "@ray.method takes options, such as @ray.method(num_returns=2); a method without options needs no decorator"
        )
    said = options.method_options(kwargs, decorator=True)

    def annotate(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, METHOD_OPTIONS, said)
        return function

    return annotate


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The handle of a living named actor. Raises ValueError if there is none."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of an actor is a text that is not empty, not {name!r}")
    if namespace is not None and not (isinstance(namespace, str) and namespace):
        raise ValueError(f"a namespace is a text that is not empty, not {namespace!r}")
    process = session.current()
    found = process.request("get_actor", namespace or process.namespace, name)
    return handle_from(process, *found)


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Names of the living named actors of this namespace; of all as dicts with name and namespace."""
    process = session.current()
    found = process.request("list_named_actors", None if all_namespaces else process.namespace)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for _, name in found]


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor's process at once; with `no_restart=False` it is restarted if it may be.

    Raises ValueError for anything but an actor handle.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"ray.kill ends actors; this is a {type(actor).__name__}; to end a task, use ray.cancel(ref)"
        )
    process = session.current()
    with process.lock:
        process.send((m.KILL, actor._actor_id, no_restart))
        process.link.flush()


def exit_actor() -> None:
    """End the current actor, from inside one of its methods; its caller gets ActorDiedError.

    Raises TypeError outside of an actor.
    """
    process = session.current_or_none()
    context = None if process is None else process.context
    if context is None or not context.actor_id:
        raise TypeError("exit_actor() is called from inside a method of an actor; this is not an actor")
    context.exit_actor()
