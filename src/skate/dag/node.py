"""Base of all nodes of a graph: arguments, traversal, and execution."""

from __future__ import annotations

import collections
import copy
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from skate.dag.nested_nodes import found_in, replaced_in

ONE_INPUT = "Each DAG should only have one unique InputNode: share the one of `with InputNode() as given:`"


def channel_types() -> Any:
    """Import the module of channel types, which graphs without channel settings do not load."""
    from skate.experimental.channel import types  # imported only if used

    return types


class DAGNode:
    """One step of a graph; its arguments may be other nodes, also inside lists, tuples, sets and dicts."""

    #: Its name in error messages.
    kind = "a node"
    #: True for an InputNode.
    is_input = False
    #: True if nodes inside a container are allowed.
    takes_containers = False

    def __init__(
        self,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        other_args_to_resolve: dict[str, Any] | None = None,
    ) -> None:
        self._bound_args = tuple(args or ())
        self._bound_kwargs = dict(kwargs or {})
        self._bound_options = dict(options or {})
        self._bound_other_args_to_resolve = dict(other_args_to_resolve or {})
        #: Results of the last `execute` with caching, by the stable uuid of their node.
        self.cache_from_last_execute: dict[str, Any] = {}
        self._stable_uuid = uuid.uuid4().hex
        self._type_hint: Any = None
        #: The nodes that use this one, each once.
        self._users: dict[DAGNode, None] = {}
        #: The output of the graph in which it was compiled.
        self._compiled_by: DAGNode | None = None
        for node in nodes_in(self._bound()):
            node._users[self] = None

    def _bound(self) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]:
        return self._bound_args, self._bound_kwargs, self._bound_other_args_to_resolve

    # -- properties

    def get_args(self) -> tuple[Any, ...]:
        """Return the positional arguments."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, Any]:
        """The options of its task, actor or call."""
        return dict(self._bound_options)

    def get_other_args_to_resolve(self) -> dict[str, Any]:
        """Return the other bound nodes, by the keys of `ray.dag.constants`: the actor and the previous call,
        or the input.
        """
        return dict(self._bound_other_args_to_resolve)

    def get_stable_uuid(self) -> str:
        """A unique id of this node, 32 hexadecimal digits, which copying and pickling keep."""
        return self._stable_uuid

    @property
    def type_hint(self) -> Any:
        """The transport of its value, as a ChannelOutputType."""
        if self._type_hint is None:
            self._type_hint = channel_types().SharedMemoryType()
        return self._type_hint

    def with_type_hint(self, typ: Any) -> DAGNode:
        """Set how the node's value is transported, as a ChannelOutputType; returns the node."""
        self._type_hint = typ
        return self

    def with_tensor_transport(
        self,
        transport: Any = "auto",
        device: str = "default",
        _static_shape: bool = False,
        _direct_return: bool = False,
    ) -> DAGNode:
        """Set how tensors of the result are transported between actors of a compiled graph; returns the node.

        `transport`: "auto" and "shm" for shared memory, "nccl" and "accelerator" for device to device, or a
        custom Communicator. Raises ValueError for other values.
        """
        self._type_hint = channel_types().TorchTensorType(
            transport=transport, device=device, _static_shape=_static_shape, _direct_return=_direct_return
        )
        return self

    def downstream(self) -> list[DAGNode]:
        """The nodes that use this one."""
        return list(self._users)

    # -- traversal

    def parents(self) -> list[DAGNode]:
        """The nodes whose results this one uses, each once."""
        return list(dict.fromkeys(nodes_in(self._bound())))

    def upstream(self) -> list[DAGNode]:
        """Return this node and all its dependencies, every node after those it uses."""
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

    def _get_toplevel_child_nodes(self) -> list[DAGNode]:
        bound = (*self._bound_args, *self._bound_kwargs.values(), *self._bound_other_args_to_resolve.values())
        return list(dict.fromkeys(each for each in bound if isinstance(each, DAGNode)))

    def _get_all_child_nodes(self) -> list[DAGNode]:
        return list(dict.fromkeys(nodes_in(self._bound())))

    def _apply_and_replace_all_child_nodes(self, fn: Callable[[DAGNode], Any]) -> DAGNode:
        results = {node: fn(node) for node in self._get_all_child_nodes()}
        other = copy.copy(self)
        bound = replaced(self._bound(), results.__getitem__)
        other._bound_args, other._bound_kwargs, other._bound_other_args_to_resolve = bound
        other._users = {}
        return other

    def apply_recursive(self, fn: Callable[[DAGNode], Any]) -> Any:
        """Apply a function to each node of the graph once, inputs first; returns the result for this node.

        The function receives copies of the nodes, whose arguments are replaced by its earlier results. Raises
        AssertionError for a graph with two InputNodes.
        """
        memo = fn if isinstance(fn, Memo) else Memo(fn)
        if self._stable_uuid in memo.cache:
            return memo.cache[self._stable_uuid]
        return memo(self._apply_and_replace_all_child_nodes(lambda node: node.apply_recursive(memo)))

    def traverse_and_apply(self, fn: Callable[[DAGNode], Any]) -> None:
        """Apply a function to every node connected with this one, this one first.

        Raises ValueError for a node inside a container, which compiled graphs do not support.
        """
        seen: dict[DAGNode, None] = {self: None}
        pending = collections.deque([self])
        while pending:
            node = pending.popleft()
            for value in node._bound_args:
                inside = 0 if isinstance(value, DAGNode) else len(list(nodes_in(value)))
                if inside and not node.takes_containers:
                    raise ValueError(inside_a_container(inside, value, node))
            fn(node)
            for each in (*node._users, *node.parents()):
                if each not in seen:
                    seen[each] = None
                    pending.append(each)

    def apply_functional(
        self,
        source_input_list: Any,
        predicate_fn: Callable[[DAGNode], Any],
        apply_fn: Callable[[DAGNode], Any],
    ) -> Any:
        """Return a copy of a container in which `apply_fn` has replaced nodes.

        `predicate_fn` decides for each node whether it is replaced; the others stay. No node is changed or copied.
        """
        results = {
            node: apply_fn(node) if predicate_fn(node) else node
            for node in dict.fromkeys(nodes_in(source_input_list))
        }
        return replaced(source_input_list, results.__getitem__)

    # -- executing

    def execute(self, *args: Any, _ray_cache_refs: bool = False, **kwargs: Any) -> Any:
        """Make every call of the graph, each node once; returns the ref of this node's result.

        The arguments replace InputNode. A ClassNode returns the handle of a new actor, a MultiOutputNode the
        list of its nodes' refs. With `_ray_cache_refs` the results of all nodes are kept for
        `get_object_refs_from_last_execute`.
        """
        order = self.upstream()
        if sum(node.is_input for node in order) > 1:
            raise AssertionError(ONE_INPUT)
        results = execute_all(order, DAGInputData.of(args, kwargs), {})
        if _ray_cache_refs:
            self.cache_from_last_execute = {node._stable_uuid: value for node, value in results.items()}
        return results[self]

    async def get_object_refs_from_last_execute(self) -> dict[str, Any]:
        """Return the results of the nodes in the last `execute(_ray_cache_refs=True)`, by their stable uuids."""
        return dict(self.cache_from_last_execute)

    def clear_cache(self) -> None:
        """Discard the results kept by `execute(_ray_cache_refs=True)`."""
        self.cache_from_last_execute = {}

    def call(self, results: Results) -> Any:
        """Make this node's call, given the results of the others."""
        raise NotImplementedError

    def resolved(self, results: Results) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with nodes replaced by results."""
        args, kwargs = replaced((self._bound_args, self._bound_kwargs), lambda node: results[node])
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
        """Check the graph once, for many executions: see `CompiledDAG`.

        `_submit_timeout`: seconds that `execute` waits for room. `_buffer_size_bytes`: room for one value (larger ones take
        more). `_max_inflight_executions`, `_max_buffered_results`: limits. Defaults are those of `DAGContext`. With
        `enable_asyncio`, `await graph.execute_async(...)` replaces `execute`. Raises ValueError or
        NotImplementedError for graphs that cannot be compiled.
        """
        return build_compiled_dag_from_ray_dag(
            self,
            _submit_timeout,
            _buffer_size_bytes,
            enable_asyncio,
            _max_inflight_executions,
            _max_buffered_results,
            _overlap_gpu_communication,
            _default_communicator,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "bind":
            raise AttributeError(
                f".bind() cannot be used again on {type(self)}: {self.kind} of a graph is already bound; "
                "call .execute() to "
                "run it"
            )
        if name == "remote":
            raise AttributeError(
                f".remote() cannot be used on {type(self)}. To execute the task graph for this node, use .execute()."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def label(self) -> str:
        """Describe the node in a word or two."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label()}, {self._stable_uuid[:8]})"


class DAGInputData:
    """Several arguments of `execute` combined in one value: `data[0]` and `data["name"]`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._args = args
        self._kwargs = kwargs

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the value of InputNode: the argument itself if there is exactly one."""
        return args[0] if len(args) == 1 and not kwargs else DAGInputData(*args, **kwargs)

    def __getitem__(self, key: int | str) -> Any:
        if not isinstance(key, (int, str)):
            raise ValueError(
                f"Please only use int index or str as first-level key to access fields of dag input, not {key!r}"
            )
        try:
            return self._args[key] if isinstance(key, int) else self._kwargs[key]
        except (IndexError, KeyError) as error:
            given = f"{len(self._args)} positional ones and {sorted(self._kwargs) or 'no named ones'}"
            text = f"the graph takes the argument {key!r}, but execute() was given {given}"
            raise type(error)(text) from None

    def __repr__(self) -> str:
        return f"DAGInputData({self._args}, {self._kwargs})"


class Results(dict[DAGNode, Any]):
    """The results so far, by node, and the arguments of `execute`."""

    def __init__(self, given: Any, kept: dict[DAGNode, Any]) -> None:
        super().__init__(kept)
        self.given = given


#: Set by `skate.dag.compiled`, which knows all kinds of nodes.
compiler: list[Callable[..., Any]] = []


def build_compiled_dag_from_ray_dag(
    dag: DAGNode,
    submit_timeout: float | None = None,
    buffer_size_bytes: int | None = None,
    enable_asyncio: bool = False,
    max_inflight_executions: int | None = None,
    max_buffered_results: int | None = None,
    overlap_gpu_communication: bool | None = None,
    default_communicator: Any = "create",
) -> Any:
    """See `DAGNode.experimental_compile`."""
    return compiler[0](**locals())


def execute_all(order: list[DAGNode], given: Any, kept: dict[DAGNode, Any]) -> Results:
    """Make the calls of these nodes, in this order; `kept` holds existing results."""
    results = Results(given, kept)
    for node in order:
        if node not in results:
            results[node] = node.call(results)
    return results


class Memo:
    """A memoized function of nodes, called once per node."""

    def __init__(self, fn: Callable[[DAGNode], Any]) -> None:
        self.cache: dict[str, Any] = {}
        self._fn = fn
        self._input = ""

    def __call__(self, node: DAGNode) -> Any:
        uuid = node._stable_uuid
        if node.is_input:
            if self._input not in ("", uuid):
                raise AssertionError(ONE_INPUT)
            self._input = uuid
        if uuid not in self.cache:
            self.cache[uuid] = self._fn(node)
        return self.cache[uuid]


def inside_a_container(count: int, value: Any, node: DAGNode) -> str:
    """Format the error about nodes inside a container."""
    return (
        f"Found {count} DAGNodes from the arg {value!r:.80} in {node.label()}. Please ensure that the argument is a "
        "single DAGNode and that a DAGNode is not allowed to be placed inside any type of container."
    )


def nodes_in(value: Any) -> Iterator[DAGNode]:
    """Yield the nodes in a value, in order and with repetitions."""
    return found_in(value, DAGNode)


def replaced(value: Any, result: Callable[[DAGNode], Any]) -> Any:
    """Return a copy of a value with nodes replaced by results; a value without them is returned unchanged."""
    return replaced_in(value, DAGNode, result)
