"""What all nodes of a graph share: their arguments, the walk through the graph, and its execution."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any


def channel_types() -> Any:
    """The module of channel types, which a graph that says nothing of channels does not load."""
    return importlib.import_module("skate.experimental.channel.types")


class DAGNode:
    """One step of a graph; its arguments may be other nodes, also inside lists, tuples, sets and dicts."""

    #: What error messages call it.
    kind = "a node"

    def __init__(self, args: Any = (), kwargs: dict[str, Any] | None = None, options: Any = None) -> None:
        self._bound_args = tuple(args)
        self._bound_kwargs = dict(kwargs or {})
        self._bound_options = dict(options or {})
        self._stable_uuid = uuid.uuid4().hex
        self._type_hint: Any = None
        #: The nodes that use this one, each once.
        self._users: dict[DAGNode, None] = {}
        #: The output of the graph that it was compiled in.
        self._compiled_by: DAGNode | None = None
        for node in _nodes_in((self._bound_args, self._bound_kwargs)):
            node._users[self] = None

    # -- what it is

    def get_args(self) -> tuple[Any, ...]:
        """The positional arguments it was bound with."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """The keyword arguments it was bound with."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, Any]:
        """The options of its task, actor or call."""
        return dict(self._bound_options)

    def get_stable_uuid(self) -> str:
        """A name of this node, 32 hexadecimal digits, that stays with it when it is copied or pickled."""
        return self._stable_uuid

    @property
    def type_hint(self) -> Any:
        """How its value travels: a ChannelOutputType."""
        if self._type_hint is None:
            self._type_hint = channel_types().SharedMemoryType()
        return self._type_hint

    def with_type_hint(self, typ: Any) -> DAGNode:
        """Say how its value travels, as a ChannelOutputType; returns the node."""
        self._type_hint = typ
        return self

    def with_tensor_transport(
        self,
        transport: Any = "auto",
        device: str = "default",
        _static_shape: bool = False,
        _direct_return: bool = False,
    ) -> DAGNode:
        """Say how tensors of its result travel between actors of a compiled graph; returns the node.

        `transport`: "auto" and "shm" stand for shared memory, "nccl" and "accelerator" for a way from device to device, a
        Communicator for a way of one's own. Raises ValueError for any other.
        """
        self._type_hint = channel_types().TorchTensorType(
            transport=transport, device=device, _static_shape=_static_shape, _direct_return=_direct_return
        )
        return self

    def downstream(self) -> list[DAGNode]:
        """The nodes that use this one."""
        return list(self._users)

    # -- walking

    def parents(self) -> list[DAGNode]:
        """The nodes whose results this one uses, each once."""
        return list(dict.fromkeys(_nodes_in((self._bound_args, self._bound_kwargs))))

    def upstream(self) -> list[DAGNode]:
        """This node and all that it depends on, every node after those it uses."""
        order: dict[DAGNode, None] = {}
        stack: list[tuple[DAGNode, Iterator[DAGNode]]] = [(self, iter(self.parents()))]
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in order), None)
            if following is None:
                order[node] = None
                stack.pop()
            else:
                stack.append((following, iter(following.parents())))
        return list(order)

    # -- executing

    def execute(self, *args: Any, _ray_cache_refs: bool = False, **kwargs: Any) -> Any:
        """Make every call of the graph, each node once; returns the ref of this node's result.

        The arguments are what InputNode stands for. A ClassNode gives the handle of a new actor, a
        MultiOutputNode the list of its nodes' refs.
        """
        return execute_all(self.upstream(), DAGInputData.of(args, kwargs), {})[self]

    def call(self, results: Results) -> Any:
        """Make this node's own call, with the results of the others at hand."""
        raise NotImplementedError

    def resolved(self, results: Results) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with results in the place of nodes."""
        args, kwargs = _replaced((self._bound_args, self._bound_kwargs), lambda node: results[node])
        return args, kwargs

    def experimental_compile(
        self,
        _submit_timeout: float | None = None,
        _buffer_size_bytes: int | None = None,
        enable_asyncio: bool = False,
        _max_inflight_executions: int | None = None,
        _max_buffered_results: int | None = None,
        _overlap_gpu_communication: bool | None = None,
        _default_communicator: Any = "create",
    ) -> Any:
        """The graph checked once, to be executed many times: see `CompiledDAG`.

        `_submit_timeout`: seconds that `execute` waits for room. `_buffer_size_bytes`: room for one value (larger ones take
        more). `_max_inflight_executions`, `_max_buffered_results`: limits. Defaults are those of `DAGContext`. With
        `enable_asyncio`, `await graph.execute_async(...)` takes the place of `execute`. Raises ValueError or
        NotImplementedError for graphs that cannot be compiled.
        """
        return compiler[0](
            self,
            submit_timeout=_submit_timeout,
            buffer_size_bytes=_buffer_size_bytes,
            enable_asyncio=enable_asyncio,
            max_inflight_executions=_max_inflight_executions,
            max_buffered_results=_max_buffered_results,
            overlap_gpu_communication=_overlap_gpu_communication,
            default_communicator=_default_communicator,
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("bind", "remote"):
            raise AttributeError(
                f".{name}() cannot be used on {self.kind} of a graph: it is bound already; call .execute() "
                "to run it"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def label(self) -> str:
        """What it does, in a word or two."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label()}, {self._stable_uuid[:8]})"


class DAGInputData:
    """Several arguments of `execute` as one value: `data[0]` and `data["name"]`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._args = args
        self._kwargs = kwargs

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What InputNode stands for: the argument itself if there is one alone."""
        return args[0] if len(args) == 1 and not kwargs else DAGInputData(*args, **kwargs)

    def __getitem__(self, key: int | str) -> Any:
        try:
            return self._args[key] if isinstance(key, int) else self._kwargs[key]
        except (IndexError, KeyError):
            given = f"{len(self._args)} positional ones and {sorted(self._kwargs) or 'no named ones'}"
            raise ValueError(
                f"the graph takes the argument {key!r}, but execute() was given {given}"
            ) from None

    def __repr__(self) -> str:
        return f"DAGInputData({self._args}, {self._kwargs})"


class Results(dict[DAGNode, Any]):
    """The results so far, by node, and the arguments of `execute`."""

    def __init__(self, given: Any, kept: dict[DAGNode, Any]) -> None:
        super().__init__(kept)
        self.given = given


#: Set by `skate.dag.compiled`, which knows all kinds of nodes.
compiler: list[Callable[..., Any]] = []


def execute_all(order: list[DAGNode], given: Any, kept: dict[DAGNode, Any]) -> Results:
    """Make the calls of these nodes, in this order; `kept` are results that there are already."""
    results = Results(given, kept)
    for node in order:
        if node not in results:
            results[node] = node.call(results)
    return results


def _nodes_in(value: Any) -> Iterator[DAGNode]:
    if isinstance(value, DAGNode):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _nodes_in(key)
            yield from _nodes_in(each)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _nodes_in(each)


def _replaced(value: Any, result: Callable[[DAGNode], Any]) -> Any:
    """A copy of a container with results in the place of nodes; what holds none is left as it is."""
    if isinstance(value, DAGNode):
        return result(value)
    if next(_nodes_in(value), None) is None:
        return value
    if isinstance(value, dict):
        return {_replaced(key, result): _replaced(each, result) for key, each in value.items()}
    parts = [_replaced(each, result) for each in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*parts)
    return parts if isinstance(value, list) else type(value)(parts)
