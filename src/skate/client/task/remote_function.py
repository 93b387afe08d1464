"""Remote functions, created by `@ray.remote`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate.client.object.generators import ObjectRefGenerator, open_gathered, open_stream
from skate.client.session import session
from skate.client.task import exports, options, signatures, submission
from skate.client.tensor import graphs
from skate.protocol.fields import TemplateFields
from skate.wire import values

if TYPE_CHECKING:
    from skate.client.process import Process

CO_GENERATOR = 0x20
CO_COROUTINE = 0x80
CO_ASYNC_GENERATOR = 0x200
#: The attribute of a function that changes how its calls are submitted.
CALL_DECORATOR = "__ray_invocation_decorator__"


class RemoteFunction:
    """A function that runs as a task: `f.remote(...)` returns refs immediately."""

    def __init__(self, function: Callable[..., Any], given: dict[str, Any]) -> None:
        self._function = function
        self._name: str = getattr(function, "__qualname__", None) or type(function).__name__
        _refuse_coroutine(function, self._name)
        self._is_generator = is_generator(function)
        self._options = options.task_options(given, decorator=True, generator=self._is_generator)
        if self._options.get("num_gpus") and self._options.get("max_calls") is None:
            self._options["max_calls"] = 1  # only the end of a process frees all of its GPU memory
        self._signature: Any = None
        self._definition: Any = None
        self._call = _Call(self, self._options)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Remote functions cannot be called directly, but {self._name} is a remote function; call {self._name}.remote() "
            f"to run it as a task, or {self._name}._function() for the plain function"
        )

    @property
    def remote(self) -> Callable[..., Any]:
        """Run the function as a task: `f.remote(*args, **kwargs)`."""
        return self._call.remote

    def options(self, **task_options: Any) -> _Call:
        """Return the function with other options."""
        return _Call(
            self,
            options.task_options(
                task_options, decorator=False, base=self._options, generator=self._is_generator
            ),
        )

    def _remote(
        self, args: Sequence[Any] | None = None, kwargs: dict[str, Any] | None = None, **task_options: Any
    ) -> Any:
        """Run the function as a task with other options: the form of `f.options(...).remote(...)` for arguments in variables."""
        call = self.options(**task_options) if task_options else self._call
        return call.remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node of a lazy task graph that calls this function."""
        return graphs.bind_function(self, args, kwargs, self._options)

    def definition(self) -> tuple[bytes, list[Any], bytes]:
        """Pickle the function by value at the first call. Later changes to captured values are ignored."""
        if self._definition is None:
            self._definition = exports.pack_definition(self._function, self._name)
        return self._definition  # type: ignore[no-any-return]

    def signature(self) -> Any:
        """Return the signature of the function."""
        if self._signature is None:
            self._signature = signatures.of_function(self._function, self._name)
        return self._signature

    def __reduce__(self) -> Any:
        return _rebuild_function, (self._function, self._options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self

    def __repr__(self) -> str:
        return f"RemoteFunction({self._name})"


class _Call:
    """A remote function with a set of options, as returned by `.options(...)`."""

    def __init__(self, function: RemoteFunction, given: dict[str, Any]) -> None:
        self._remote_function = function
        self._options = given
        self._process: Process | None = None
        self._key = b""
        self._exported: Any = None  # keeps the key registered
        self._returns: Any = 1
        self._backpressure = False
        self._group: Any = None
        self._least = 1
        self._most = 0
        self._name = function._name
        decorator = getattr(function._function, CALL_DECORATOR, None)
        if decorator is not None:
            self.remote = functools.partial(decorate_call, decorator, self.remote)  # type: ignore[method-assign]

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function as a task."""
        if kwargs or not self._least <= len(args) <= self._most:
            self._check(args, kwargs)
        process = session.current()
        if self._process is not process or (
            process.context is not None and self._group != process.context.captured_group
        ):
            self._export(process)
        packed = submission.pack_arguments(process, args, kwargs, self)
        site = submission.call_site(2)
        returns = self._returns
        with process.lock:
            if type(returns) is int:
                refs = submission.submit(process, b"", self._key, returns, packed, site)
            elif returns == "dynamic":
                return open_gathered(process, b"", self._key, packed, site)
            else:
                return open_stream(process, b"", self._key, packed, site, self._backpressure)
        if returns == 1:
            return refs[0]
        return refs or None

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node of a lazy task graph that calls this function with these options."""
        return graphs.bind_function(self, args, kwargs, self._options)

    @property
    def name(self) -> str:
        """The name in error messages."""
        return self._name

    def parameters(self) -> list[str]:
        """Return the names of the function's parameters, for error messages."""
        return parameter_names(self._remote_function.signature())

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        signature = self._remote_function.signature()
        self._least, self._most = signature.least, signature.most
        signature.check(args, kwargs)

    def _export(self, process: Process) -> None:
        function = self._remote_function
        blob, met, function_key = function.definition()
        given = self._options
        fields = exports.common_fields(process, given, self._name, function_key, "task")
        returns = given.get("num_returns")
        if returns is None:
            returns = "streaming" if function._is_generator else 1
        retry = given.get("retry_exceptions") or False
        retries = given.get("max_retries")
        fields |= {
            "kind": "task",
            "max_retries": options.default_max_retries() if retries is None else retries,
            "retry_exceptions": retry if isinstance(retry, bool) else values.pack_function(retry)[0],
            "max_calls": given.get("max_calls") or 0,
            **return_fields(returns),
        }
        backpressure = given.get("_generator_backpressure_num_objects")
        if backpressure is not None and backpressure > 0:
            fields["backpressure"] = backpressure
            self._backpressure = True
        per_yield = given.get("_num_objects_per_yield") or 1
        if per_yield > 1:
            fields["per_yield"] = per_yield
        with process.lock:
            exported = exports.export_function(process, blob, met, function_key)
            self._exported = exports.export_template(process, fields, exported)
            self._key = self._exported.key
        self._returns = returns if isinstance(returns, str) else fields["returns"]
        self._group = process.context.captured_group if process.context is not None else None
        self._process = process
        signature = function.signature()
        self._least, self._most = signature.least, signature.most

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._remote_function(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _rebuild_call, (self._remote_function, self._options)

    def __repr__(self) -> str:
        return f"RemoteFunction({self._name}).options(...)"


def decorate_call(decorator: Any, submit: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Submit a call through the decorator that its function has in ``__ray_invocation_decorator__``.

    The decorator gets a function of the arguments as a sequence and a dict, and may change them and the result.
    """

    def call(given: Sequence[Any] | None = None, named: dict[str, Any] | None = None) -> Any:
        return submit(*(given or ()), **(named or {}))

    return decorator(call)(args, kwargs)


def parameter_names(signature: Any) -> list[str]:
    """Return the names of positional parameters in order, or an empty list if unknown."""
    return [] if signature is None else signature.positional_names()


def return_fields(returns: Any) -> TemplateFields:
    """Return the template fields for the results: a number, or a stream, which includes "dynamic"."""
    if isinstance(returns, str):
        return {"returns": 1, "streaming": True}
    return {"returns": returns}


def is_generator(function: Any) -> bool:
    """Return True for generator functions, including async ones."""
    return bool(_code_flags(function) & (CO_GENERATOR | CO_ASYNC_GENERATOR))


def _code_flags(function: Any) -> int:
    """Return the compiler flags of a function, without its wrappers."""
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None) or getattr(
        function, "__code__", None
    )
    return getattr(code, "co_flags", 0)


def _refuse_coroutine(function: Any, name: str) -> None:
    if _code_flags(function) & CO_COROUTINE:
        raise ValueError(
            f"'async def' should not be used for remote tasks, because they run to completion one after the other: {name} is "
            f"one; turn it into a method of an actor, or wrap it: `def task(*args): return asyncio.run({name}(*args))`"
        )


def _rebuild_function(function: Callable[..., Any], given: dict[str, Any]) -> RemoteFunction:
    return RemoteFunction(function, given)


def _rebuild_call(function: RemoteFunction, given: dict[str, Any]) -> _Call:
    return _Call(function, given)


__all__ = ["ObjectRefGenerator", "RemoteFunction"]
