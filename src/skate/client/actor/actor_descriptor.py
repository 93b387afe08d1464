"""A description of an actor's class, sent with every handle for processes that do not have the class."""

from __future__ import annotations

from typing import Any

from skate.client.task import signatures
from skate.client.task.remote_function import CALL_DECORATOR, is_generator

CO_COROUTINE = 0x80
CO_ASYNC_GENERATOR = 0x200
METHOD_OPTIONS = "__ray_method_options__"
STREAM_LIMIT = "_actor_generator_backpressure_num_objects"


class ActorDescriptor:
    """The class of an actor as its handles need it: name, and methods with their options and signatures."""

    __slots__ = (
        "class_name",
        "methods",
        "signatures",
        "is_async",
        "groups",
        "tensors",
        "generators",
        "stream_limit",
    )

    def __init__(
        self,
        class_name: str,
        methods: dict[str, dict[str, Any]],
        signs: dict[str, Any],
        is_async: bool,
        groups: tuple[str, ...],
        tensors: bool = False,
        generators: tuple[str, ...] = (),
        stream_limit: int = 0,
    ) -> None:
        self.class_name = class_name
        self.methods = methods
        self.signatures = signs
        self.is_async = is_async
        self.groups = groups
        #: True if methods may keep tensors in the actor's process, for other processes to fetch.
        self.tensors = tensors
        #: The methods that are generator functions: only they may stream.
        self.generators = generators
        #: The number of unread values at which all generators of the actor wait for their readers; 0 for no limit.
        self.stream_limit = stream_limit

    @classmethod
    def of(cls, target: type, given: dict[str, Any]) -> ActorDescriptor:
        """Describe a class."""
        signs = signatures.of_methods(target)
        methods: dict[str, dict[str, Any]] = {}
        is_async = _is_async(getattr(target, "__init__", None))
        generators = []
        for name in signs:
            function = getattr(target, name)
            plain = getattr(function, "__func__", function)
            options = dict(getattr(plain, METHOD_OPTIONS, {}))
            is_async = is_async or _is_async(plain)
            yields = is_generator(plain)
            if yields:
                generators.append(name)
            if options.get("num_returns") is None:
                options["num_returns"] = "streaming" if yields else 1
            decorator = getattr(plain, CALL_DECORATOR, None)
            if decorator is not None:
                options[CALL_DECORATOR] = decorator
            methods[name] = options
        groups = tuple(given.get("concurrency_groups") or ())
        wanted = given.get("enable_tensor_transport")
        named = any(options.get("tensor_transport") for options in methods.values())
        if named and wanted is False:
            raise ValueError(
                "Actor class has methods with @ray.method(tensor_transport=...) decorator but "
                f"@ray.remote(enable_tensor_transport=False): {target.__qualname__}. Remove one of the two"
            )
        return cls(
            target.__qualname__, methods, signs, is_async, groups, named or bool(wanted), tuple(generators)
        )

    def fitted(self, given: dict[str, Any]) -> ActorDescriptor:
        """Return the descriptor of an actor with these options."""
        tensors = self.tensors or bool(given.get("enable_tensor_transport"))
        limit = max(given.get(STREAM_LIMIT) or 0, 0)
        if (tensors, limit) == (self.tensors, self.stream_limit):
            return self
        if limit and self.is_async:
            raise ValueError(
                f"{self.class_name} has async methods, for which {STREAM_LIMIT} is not supported; leave it out"
            )
        return ActorDescriptor(
            self.class_name,
            self.methods,
            self.signatures,
            self.is_async,
            self.groups,
            tensors,
            self.generators,
            limit,
        )

    @property
    def short_name(self) -> str:
        """The name of the class, without the scope where it is defined."""
        return self.class_name.rpartition(".")[2]

    def __reduce__(self) -> Any:
        plain = {name: dict(options) for name, options in self.methods.items()}
        return ActorDescriptor, (
            self.class_name,
            plain,
            self.signatures,
            self.is_async,
            self.groups,
            self.tensors,
            self.generators,
            self.stream_limit,
        )


def _is_async(function: object) -> bool:
    """Return True for `async def`, also with `yield`."""
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    return bool(flags & (CO_COROUTINE | CO_ASYNC_GENERATOR))
