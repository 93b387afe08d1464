"""Actors of a graph, and the calls of their methods."""

from __future__ import annotations

import itertools
from typing import Any

from skate.dag.input_node import InputNode
from skate.dag.node import DAGNode, Results

_bind_indexes = itertools.count()


class ClassNode(DAGNode):
    """An actor that each `execute` starts anew, from `C.bind(...)`; `node.method.bind(...)` calls it."""

    kind = "a class"

    def __init__(
        self, body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any], cls: type
    ) -> None:
        super().__init__(args, kwargs, options)
        self._body = body
        self._cls = cls
        self._last_call: ClassMethodNode | None = None
        if any(isinstance(node, InputNode) for node in self.upstream()):
            raise ValueError(
                f"the constructor of {cls.__name__} is bound to an InputNode, whose value is known only "
                "when the graph is "
                "executed; give it to a method instead"
            )

    def call(self, results: Results) -> Any:
        """Start the actor."""
        args, kwargs = self.resolved(results)
        return self._body.remote(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (name in ("bind", "remote") and not hasattr(self._cls, name)):
            return super().__getattr__(name)
        if not callable(getattr(self._cls, name, None)):
            raise AttributeError(f"the actor class {self._cls.__name__} has no method {name!r}")
        return UnboundMethod(self, name, {})

    def label(self) -> str:
        """The class."""
        return self._cls.__name__


class UnboundMethod:
    """`node.method` of a ClassNode, before `bind`."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, Any]) -> None:
        self._actor = actor
        self._name = name
        self._options = options

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """A node that calls the method; with `num_returns` above 1, a tuple of nodes, one a result."""
        call = bind_method(self._actor, self._name, args, kwargs, self._options)
        self._actor._last_call = call[0]._call if isinstance(call, tuple) else call
        return call

    def options(self, **options: Any) -> UnboundMethod:
        """The same method with other options."""
        return UnboundMethod(self._actor, self._name, {**self._options, **options})

    def __getattr__(self, name: str) -> Any:
        if name == "remote":
            raise AttributeError(
                f"{self._name} of a graph is not called with .remote() but bound with .bind()"
            )
        raise AttributeError(
            f"{self._actor.label()}.{self._name} has no attribute {name!r}; write .bind(...)"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self._actor.label()}.{self._name} of a graph cannot be called; write .bind(...)")


class ClassMethodNode(DAGNode):
    """One call of an actor's method; those of one ClassNode are made in the order of their binding."""

    kind = "a method"

    def __init__(
        self, actor: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any]
    ) -> None:
        super().__init__(args, kwargs, options)
        self._actor = actor
        #: The method of a living actor, with its options.
        self._method: Any = None
        self._method_name = name
        self._previous = actor._last_call if isinstance(actor, ClassNode) else None
        #: Calls of a compiled graph are made in the order of their binding.
        self.bind_index = next(_bind_indexes)

    def step_body(self) -> Any:
        """What the loop of a compiled graph calls: the name of the method."""
        return self._method_name

    def parents(self) -> list[DAGNode]:
        """Its arguments, its actor, and the call bound before it."""
        found = super().parents()
        if self._previous is not None:
            found.append(self._previous)
        if isinstance(self._actor, ClassNode):
            found.append(self._actor)
        return list(dict.fromkeys(found))

    def call(self, results: Results) -> Any:
        """Submit the call."""
        args, kwargs = self.resolved(results)
        method = self._method
        if method is None:
            method = getattr(results[self._actor], self._method_name)
            if self._bound_options:
                method = method.options(**self._bound_options)
        return method.remote(*args, **kwargs)

    def get_method_name(self) -> str:
        """The name of the method."""
        return self._method_name

    @property
    def actor(self) -> Any:
        """The actor's handle, or the ClassNode that starts it."""
        return self._actor

    @property
    def num_returns(self) -> int:
        """How many results the call has."""
        wanted = self._bound_options.get("num_returns", 1)
        return wanted if isinstance(wanted, int) else 1

    @property
    def is_class_method_call(self) -> bool:
        """True for the call itself, false for one of its several results."""
        return True

    @property
    def is_class_method_output(self) -> bool:
        """True for one of several results of a call."""
        return False

    def label(self) -> str:
        """The method."""
        actor = self._actor.label() if isinstance(self._actor, ClassNode) else repr(self._actor)
        return f"{actor}.{self._method_name}"


class ClassMethodOutput(ClassMethodNode):
    """One of several results of a call."""

    def __init__(self, call: ClassMethodNode, index: int) -> None:
        DAGNode.__init__(self)
        self._actor = call._actor
        self._method_name = call._method_name
        self._previous = None
        self._call = call
        self._index = index
        self.bind_index = call.bind_index
        call._users[self] = None

    def parents(self) -> list[DAGNode]:
        """The call."""
        return [self._call]

    def call(self, results: Results) -> Any:
        """Pick the ref."""
        return results[self._call][self._index]

    @property
    def is_class_method_call(self) -> bool:
        """False: the call is another node."""
        return False

    @property
    def is_class_method_output(self) -> bool:
        """True."""
        return True

    @property
    def output_idx(self) -> int:
        """Which result, from 0."""
        return self._index

    @property
    def class_method_call(self) -> ClassMethodNode:
        """The call."""
        return self._call


def bind_method(
    actor: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any], method: Any = None
) -> Any:
    """The node of a method call, or the nodes of its results if there are several.

    `actor` is a ClassNode, or a handle whose `method` has its options already.
    """
    call = ClassMethodNode(actor, name, args, kwargs, options)
    call._method = method
    if call.num_returns > 1:
        return tuple(ClassMethodOutput(call, index) for index in range(call.num_returns))
    return call
