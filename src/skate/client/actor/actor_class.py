"""Actor classes, and the public functions for actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from skate.client.actor.actor_descriptor import METHOD_OPTIONS, ActorDescriptor
from skate.client.actor.actor_handle import ActorHandle, handle_from
from skate.client.session import session
from skate.client.task import exports, option_values, options, signatures, submission
from skate.client.task.remote_function import is_generator, parameter_names
from skate.client.tensor import graphs
from skate.protocol import messages as m
from skate.protocol.fields import ActorFields, TemplateFields
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

ASYNC_CONCURRENCY = 1000


class ActorClassInheritanceException(TypeError):
    """Raised when a class inherits from an actor class."""


class _Metadata:
    """The attributes of an actor class that tools read from ``__ray_metadata__``."""

    __slots__ = ("modified_class", "class_name")

    def __init__(self, cls: type) -> None:
        self.modified_class = cls
        self.class_name = cls.__name__


class _Constructor:
    """The name and signature of a constructor, for error messages."""

    __slots__ = ("name", "signature")

    def __init__(self, name: str, signature: Any) -> None:
        self.name = name
        self.signature = signature

    def parameters(self) -> list[str]:
        """Return the names of its parameters."""
        return parameter_names(self.signature)


class ActorClass:
    """A class whose instances live in their own processes: `C.remote(...)` returns a handle immediately."""

    #: For annotations that name the class itself: `ActorClass[Counter]`.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, cls: type, given: dict[str, Any]) -> None:
        self._cls = cls
        self._name = cls.__qualname__
        self._options = options.actor_options(given, decorator=True)
        self._constructor: Any = None
        self._definition: Any = None
        self._descriptor: ActorDescriptor | None = None
        self.__module__ = cls.__module__
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__doc__ = cls.__doc__
        self.__ray_actor_class__ = cls

    @property
    def __ray_metadata__(self) -> Any:
        return _Metadata(self._cls)

    def __getattr__(self, name: str) -> Any:
        cls = self.__dict__.get("_cls")
        if cls is None:  # the instance is still being constructed
            raise AttributeError(name)
        try:
            return getattr(cls, name)
        except AttributeError:
            raise AttributeError(f"the actor class {cls.__qualname__} has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._cls)})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actors cannot be instantiated directly, and {self._name} is an actor class; call {self._name}.remote() to start one"
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise ActorClassInheritanceException(
            "Inheriting from actor classes is not currently supported; inherit from the plain class instead and decorate the "
            f"result, or make the actor class with ray.remote({self._name})"
        )

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor and pass these arguments to its constructor."""
        return self._start(args, kwargs, self._options)

    def options(self, **actor_options: Any) -> _ActorCall:
        """Return the class with other options, for starting actors."""
        return _ActorCall(self, options.actor_options(actor_options, decorator=False, base=self._options))

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: dict[str, Any] | None = None, **actor_options: Any
    ) -> ActorHandle:
        """Start an actor with other options: the form of `C.options(...).remote(...)` for arguments in variables."""
        given = (
            options.actor_options(actor_options, decorator=False, base=self._options)
            if actor_options
            else self._options
        )
        return self._start(tuple(args or ()), kwargs or {}, given)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node of a lazy graph that starts this actor."""
        return graphs.bind_class(self, args, kwargs, self._options, self._cls)

    def _renamed(self, name: str) -> ActorClass:
        """Return the class under another name, which the state of the cluster shows."""
        made = ActorClass(self._cls, self._options)
        made._name = name
        return made

    def _described(self) -> ActorDescriptor:
        if self._descriptor is None:
            self._descriptor = ActorDescriptor.of(self._cls, self._options)
        return self._descriptor

    def _start(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: dict[str, Any],
        last: _Exported | None = None,
    ) -> ActorHandle:
        if self._constructor is None:
            self._constructor = _Constructor(self._name, signatures.of_class(self._cls, self._name))
        self._constructor.signature.check(args, kwargs)
        process = session.current()
        namespace = given.get("namespace") or process.namespace
        name = given.get("name")
        if name and given.get("get_if_exists"):
            found = process.request("get_actor", namespace, name)
            if found is not None:
                return handle_from(process, *found)
        elif name and process.request("get_actor", namespace, name) is not None:
            from skate.exceptions import ActorAlreadyExistsError  # only errors need the tree

            raise ActorAlreadyExistsError(
                f"The name {name} (namespace={namespace}) is already taken by a living actor. Please use a different name, "
                "or pass get_if_exists=True to use that one"
            )
        descriptor = self._described().fitted(given)
        packed = submission.pack_arguments(process, args, kwargs, self._constructor)
        if last is None or not last.is_valid(process):
            fields, definition = self._fields(process, given, descriptor)
        with process.lock:
            if last is not None and last.is_valid(process):
                exported, fields = last.export, last.fields
            else:
                exported = exports.export_template(
                    process, fields, exports.export_function(process, *definition)
                )
                if last is not None:
                    last.remember(process, exported, fields)
            actor_id = process.next_actor_id()
            hold = process.hold_actor(actor_id, 1)
            handle = ActorHandle(actor_id, descriptor, hold, given.get("max_pending_calls") or -1)
            life: ActorFields = {
                "actor_name": name or "",
                "namespace": namespace,
                "detached": given.get("lifetime") == "detached",
                "max_restarts": given.get("max_restarts") or 0,
                "max_task_retries": given.get("max_task_retries") or 0,
                "concurrent": fields["concurrent"],
                "handle": values.pack(handle._skate_public()).joined() if name else b"",
            }
        submission.request_actor(process, actor_id, exported.key, packed, life)
        if name and given.get("get_if_exists"):
            # Another process may have created the actor first.
            found = process.request("get_actor", namespace, name)
            if found is not None and found[0] != actor_id:
                return handle_from(process, *found)
        return handle

    def _fields(
        self, process: Process, given: dict[str, Any], descriptor: ActorDescriptor
    ) -> tuple[TemplateFields, tuple[Any, ...]]:
        if self._definition is None:
            self._definition = exports.pack_definition(self._cls, self._name)
        blob, met, function_key = self._definition
        concurrency = given.get("max_concurrency")
        groups = given.get("concurrency_groups") or {}
        if concurrency is None:
            concurrency = ASYNC_CONCURRENCY if descriptor.is_async else 1
        if given.get("allow_out_of_order_execution") is False and (descriptor.is_async or concurrency > 1):
            kind = "async" if descriptor.is_async else "multi-threaded"
            raise ValueError(
                f"{self._name}: you asked for allow_out_of_order_execution=False, but if you're using {kind} actors, Ray can't "
                "execute actor tasks in order. Leave the option out or set `allow_out_of_order_execution=True`"
            )
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


class _Exported:
    """The registration of a driver at the node for actors with the same options."""

    __slots__ = ("_tail", "export", "fields")

    def __init__(self) -> None:
        #: What the ids of the process end with, which no other session has.
        self._tail = b""
        self.export: Any = None
        self.fields: Any = None

    def is_valid(self, process: Process) -> bool:
        """Return True if the next actor needs no other registration. Inside a task it may, because of what that inherits."""
        return self._tail == process.tail and process.context is None

    def remember(self, process: Process, export: Any, fields: TemplateFields) -> None:
        """Keep a registration for the actors that follow."""
        self._tail, self.export, self.fields = process.tail, export, fields


class _ActorCall:
    """An actor class with a set of options, as returned by `.options(...)`."""

    def __init__(self, actor_class: ActorClass, given: dict[str, Any]) -> None:
        self._actor_class = actor_class
        self._options = given
        self._exported = _Exported()

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor with these options."""
        return self._actor_class._start(args, kwargs, self._options, self._exported)

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node of a lazy graph that starts this actor with these options."""
        return graphs.bind_class(self, args, kwargs, self._options, self._actor_class._cls)


def _rebuild_class(cls: type, given: dict[str, Any]) -> ActorClass:
    return ActorClass(cls, given)


def method(*args: Any, **kwargs: Any) -> Any:
    """Set options of an actor method, as in `@ray.method(num_returns=2)`. Without arguments it changes nothing.

    Raise ValueError (also an AssertionError) for an unknown option, and AssertionError for anything but a function.
    """
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    if args:
        raise AssertionError(
            f"@ray.method decorates a method, bare or with options such as @ray.method(num_returns=2), got "
            f"{args[0]!r:.60}"
        )
    method_options = options.method_options(kwargs, decorator=True)

    def annotate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not is_generator(function):
            option_values.streams(method_options.get("num_returns"))
        setattr(function, METHOD_OPTIONS, method_options)
        return function

    return annotate


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Return a handle to a living actor by name.

    Args:
        name: The name given to `options(name=...)`.
        namespace: The namespace of the actor; the session's own by default.

    Raises:
        ValueError: no living actor has this name, or a name is not a non-empty string.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"Please supply a non-empty value to get_actor: got {name!r}, but the name of an actor is a non-empty string"
        )
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be None or a string, not {namespace!r}")
    if namespace == "":
        raise ValueError('"" is not a valid namespace. Pass None for the namespace of this program')
    process = session.current()
    where = namespace or process.namespace
    found = process.request("get_actor", where, name)
    if found is None:
        raise ValueError(_no_such_actor(where, name, process.request("list_named_actors", None)))
    return handle_from(process, *found)


def _no_such_actor(namespace: str, name: str, known: list[tuple[str, str]]) -> str:
    text = f"Failed to look up actor with name {name!r}: no living actor has it in namespace {namespace!r}"
    elsewhere = [space for space, other in known if other == name]
    if elsewhere:
        return f"{text}, but there is one in {elsewhere}; pass namespace= to get_actor"
    here = [other for space, other in known if space == namespace]
    if here:
        return f"{text}; the names there are {here[:20]}"
    return f"{text}; start it with options(name={name!r})"


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Return the names of the living actors in this namespace, or dicts of name and namespace for all namespaces."""
    process = session.current()
    found = process.request("list_named_actors", None if all_namespaces else process.namespace)
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for _, name in found]


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """Kill the process of an actor immediately, even while it runs a method.

    Args:
        actor: A handle to the actor.
        no_restart: False restarts the actor if it has restarts left (`max_restarts`); True (the default) does not.

    Raises:
        ValueError: `actor` is not an actor handle.
    """
    if not isinstance(actor, ActorHandle):
        raise ValueError(
            f"ray.kill() only supported for actors, got {type(actor).__name__}; to end a task, use ray.cancel(ref)"
        )
    process = session.current()
    with process.lock:
        process.send(m.Kill(m.KILL, actor._skate_id, no_restart))
        process.link.flush()


def exit_actor() -> None:
    """End the current actor from inside one of its methods. The caller of the method gets ActorDiedError.

    Raise TypeError outside of an actor.
    """
    process = session.current_or_none()
    context = None if process is None else process.context
    if context is None or not context.actor_id:
        raise TypeError("exit_actor() must be called inside a method of an actor, but this is not an actor")
    context.exit_actor()
