"""Actors of a graph, and the calls of their methods."""

from __future__ import annotations

import itertools
from typing import Any

import skate
from skate.dag.constants import (
    BIND_INDEX_KEY,
    IS_CLASS_METHOD_OUTPUT_KEY,
    PARENT_CLASS_NODE_KEY,
    PREV_CLASS_METHOD_CALL_KEY,
)
from skate.dag.node import DAGNode, Results

_bind_indexes = itertools.count()


class ClassNode(DAGNode):
    """An actor that each `execute` starts anew, from `C.bind(...)`; `node.method.bind(...)` calls it."""

    kind = "a class"

    def __init__(
        self,
        cls: Any,
        cls_args: Any,
        cls_kwargs: dict[str, Any],
        cls_options: dict[str, Any],
        other_args_to_resolve: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(cls_args, cls_kwargs, cls_options, other_args_to_resolve)
        #: The actor class; None for a plain class, which is then converted.
        self._body: Any = None
        self._cls = cls
        self._last_call: ClassMethodNode | None = None
        if any(node.is_input for node in self.upstream()):
            raise ValueError(
                "InputNode handles user dynamic input the DAG, and cannot be used as args, kwargs, or other_args_to_resolve "
                "in ClassNode constructor because it is not available at class construction or binding time. "
                f"Pass it to a method of {cls.__name__} instead"
            )

    def call(self, results: Results) -> Any:
        """Start the actor."""
        args, kwargs = self.resolved(results)
        body = self._body or skate.remote(self._cls).options(**self._bound_options)
        return body.remote(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (name == "bind" and not hasattr(self._cls, name)):
            return super().__getattr__(name)
        if not callable(getattr(self._cls, name, None)):
            more = "; bind() and execute() take its place" if name == "remote" else " that can be called"
            raise AttributeError(f"type object {self._cls.__name__!r} has no attribute {name!r}{more}")
        return UnboundMethod(self, name, {})

    def label(self) -> str:
        """The class."""
        return str(self._cls.__name__)


class UnboundMethod:
    """`node.method` of a ClassNode, before `bind`."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, Any]) -> None:
        self._actor = actor
        self._name = name
        self._options = options

    def bind(self, *args: Any, **kwargs: Any) -> Any:
        """Return a node that calls the method; with `num_returns` above 1, a tuple of nodes, one per result."""
        call = bind_method(self._actor, self._name, args, kwargs, self._options)
        self._actor._last_call = call[0]._call if isinstance(call, tuple) else call
        return call

    def options(self, **options: Any) -> UnboundMethod:
        """Return the method with other options."""
        return UnboundMethod(self._actor, self._name, {**self._options, **options})

    def __getattr__(self, name: str) -> Any:
        if name == "remote":
            raise AttributeError(
                f".remote() cannot be used on ClassMethodNodes. Use .bind() instead to have a graph call {self._name}()"
            )
        raise AttributeError(f"{self._actor.label()}.{self._name} has no attribute {name!r}; use .bind(...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"{self._actor.label()}.{self._name} is a method of a graph and cannot be called; use .bind(...)"
        )


class ClassMethodNode(DAGNode):
    """One call of an actor's method; those of one ClassNode are made in the order of their binding."""

    kind = "a method"

    def __init__(
        self,
        method_name: str,
        method_args: Any,
        method_kwargs: dict[str, Any],
        method_options: dict[str, Any],
        other_args_to_resolve: dict[str, Any],
    ) -> None:
        super().__init__(method_args, method_kwargs, method_options, other_args_to_resolve)
        #: The method of a living actor, with its options.
        self._method: Any = None
        self._method_name = method_name
        #: A compiled graph makes calls in the order of their binding.
        self.bind_index = next(_bind_indexes)

    @property
    def _actor(self) -> Any:
        return self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]

    def step_body(self) -> Any:
        """The method name, for the loop of a compiled graph to call."""
        return self._method_name

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
        """Return the name of the method."""
        return self._method_name

    @property
    def actor(self) -> Any:
        """The actor's handle, or the ClassNode that starts it."""
        return self._actor

    @property
    def num_returns(self) -> int:
        """The number of results of the call."""
        wanted = self._bound_options.get("num_returns", 1)
        return wanted if isinstance(wanted, int) else 1

    @property
    def output_idx(self) -> int | None:
        """The index among several results; None for the call."""
        return None

    @property
    def class_method_call(self) -> ClassMethodNode | None:
        """The call of which this is a result; None for the call."""
        return None

    @property
    def is_class_method_call(self) -> bool:
        """True for the call itself, False for one of its several results."""
        return True

    @property
    def is_class_method_output(self) -> bool:
        """True for one of several results of a call."""
        return False

    def label(self) -> str:
        """The name of the method."""
        actor = self._actor.label() if isinstance(self._actor, ClassNode) else repr(self._actor)
        return f"{actor}.{self._method_name}"


class ClassMethodOutput(ClassMethodNode):
    """One of several results of a call."""

    def __init__(self, call: ClassMethodNode, index: int) -> None:
        DAGNode.__init__(
            self,
            other_args_to_resolve={PARENT_CLASS_NODE_KEY: call._actor, IS_CLASS_METHOD_OUTPUT_KEY: True},
        )
        self._method_name = call._method_name
        self._call = call
        self._index = index
        self.bind_index = call.bind_index
        call._users[self] = None

    def parents(self) -> list[DAGNode]:
        """Return the call of which this is a result."""
        return [self._call]

    def call(self, results: Results) -> Any:
        """Select the ref from the call's results."""
        return results[self._call][self._index]

    @property
    def is_class_method_call(self) -> bool:
        """False: the call is another node."""
        return False

    @property
    def is_class_method_output(self) -> bool:
        """Return True."""
        return True

    @property
    def output_idx(self) -> int:
        """The index of the result, from 0."""
        return self._index

    @property
    def class_method_call(self) -> ClassMethodNode:
        """The call of which this is a result."""
        return self._call


def bind_class(body: Any, args: Any, kwargs: dict[str, Any], options: dict[str, Any], cls: type) -> ClassNode:
    """Create the node of an actor that `body` starts, with its options."""
    node = ClassNode(cls, args, kwargs, options)
    node._body = body
    return node


def bind_method(
    actor: Any, name: str, args: Any, kwargs: dict[str, Any], options: dict[str, Any], method: Any = None
) -> Any:
    """Create the node of a method call, or the nodes of its results if there are several.

    `actor` is a ClassNode, or a handle whose `method` has its options already.
    """
    previous = actor._last_call if isinstance(actor, ClassNode) else None
    call = ClassMethodNode(
        name, args, kwargs, options, {PARENT_CLASS_NODE_KEY: actor, PREV_CLASS_METHOD_CALL_KEY: previous}
    )
    if not isinstance(actor, ClassNode):
        call._bound_other_args_to_resolve[BIND_INDEX_KEY] = call.bind_index
    call._method = method
    if call.num_returns > 1:
        return tuple(ClassMethodOutput(call, index) for index in range(call.num_returns))
    return call
