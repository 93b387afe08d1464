"""Graphs that are checked once and executed many times.

Where Ray sets up channels between the actors of a compiled graph, Skate makes ordinary actor calls, which
cost a fraction of Ray's; results travel through the shared-memory store. What a program sees is the same:
`execute` returns a ref that can be fetched once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import skate as ray
from skate.dag.class_node import ClassMethodNode, ClassMethodOutput, ClassNode
from skate.dag.function_node import FunctionNode
from skate.dag.input_node import InputAttributeNode, InputNode
from skate.dag.node import DAGInputData, DAGNode, compiler, execute_all
from skate.dag.output_node import MultiOutputNode
from skate.exceptions import (
    GetTimeoutError,
    RayCgraphCapacityExceeded,
    RayChannelError,
    RayChannelTimeoutError,
)


class CompiledDAG:
    """A graph of actor calls, executed by `execute` or `execute_async` until `teardown`.

    It consists of methods of living actors, has an InputNode, and every call in it leads to its output;
    anything else is refused with NotImplementedError or ValueError.
    """

    def __init__(
        self, output: DAGNode, enable_asyncio: bool = False, max_inflight: int | None = None
    ) -> None:
        self._output = output
        self._order = output.upstream()
        self._enable_asyncio = enable_asyncio
        self._max_inflight = max_inflight
        self._lock = threading.Lock()
        self._closed = False
        self._executions = 0
        self._open: weakref.WeakSet[_Result] = weakref.WeakSet()
        self._check()

    def _check(self) -> None:
        inputs = [node for node in self._order if isinstance(node, InputNode)]
        if not inputs:
            raise ValueError(
                f"{self._output!r} has no InputNode; a compiled graph takes its arguments through one: "
                "with InputNode() as given: ..."
            )
        if len(inputs) > 1:
            raise NotImplementedError(f"a compiled graph has one InputNode, this one has {len(inputs)}")
        for node in self._order:
            if isinstance(node, FunctionNode):
                raise NotImplementedError(
                    f"compiled graphs consist of methods of actors; {node.label()} is a function"
                )
            if isinstance(node, ClassNode):
                raise ValueError(
                    f"compiled graphs take actors that live already; start it with {node.label()}.remote() "
                    "and bind the "
                    "methods of the handle"
                )
            if isinstance(node, ClassMethodNode) and not node.parents():
                raise ValueError(
                    f"{node.label()} depends on nothing; in a compiled graph each call uses a node"
                )
        self._input = inputs[0]
        keys = [node.key for node in self._order if isinstance(node, InputAttributeNode)]
        direct = any(self._input in n.parents() for n in self._order if not isinstance(n, InputAttributeNode))
        if keys and direct:
            raise ValueError(
                "the calls of a compiled graph use the InputNode either whole or in parts, not both"
            )
        self._names = sorted(key for key in keys if isinstance(key, str))
        indexes = [key for key in keys if isinstance(key, int)]
        self._positional = max(indexes) + 1 if indexes else 0 if keys else 1

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Make the calls; returns a CompiledDAGRef, or a list of them for a MultiOutputNode.

        Raises ValueError for arguments that the graph does not take, RayCgraphCapacityExceeded above
        `_max_inflight_executions`, RayChannelError after `teardown`.
        """
        if self._enable_asyncio:
            raise ValueError(
                "this graph was compiled with enable_asyncio=True; await execute_async() instead"
            )
        return self._results(args, kwargs, CompiledDAGRef)

    async def execute_async(self, *args: Any, **kwargs: Any) -> Any:
        """Make the calls; returns a CompiledDAGFuture to await, or a list of them for a MultiOutputNode."""
        if not self._enable_asyncio:
            raise ValueError(
                "execute_async() needs a graph compiled with enable_asyncio=True; call execute() instead"
            )
        return self._results(args, kwargs, CompiledDAGFuture)

    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any], kind: type[_Result]) -> Any:
        self._check_arguments(args, kwargs)
        with self._lock:
            if self._closed:
                raise RayChannelError("the compiled graph was torn down; compile it again")
            waiting = sum(not result._fetched for result in self._open)
            if self._max_inflight is not None and waiting >= self._max_inflight:
                raise RayCgraphCapacityExceeded(
                    f"{waiting} executions of the compiled graph have not been fetched and "
                    "_max_inflight_executions="
                    f"{self._max_inflight}; get their results first"
                )
            self._executions += 1
            made = execute_all(self._order, DAGInputData.of(args, kwargs), {})[self._output]
            results = [kind(ref, self._executions) for ref in (made if isinstance(made, list) else [made])]
            self._open.add(results[0])
        return results if isinstance(self._output, MultiOutputNode) else results[0]

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) != self._positional:
            raise ValueError(
                f"the compiled graph takes {self._positional} positional arguments, not {len(args)}"
            )
        missing = [name for name in self._names if name not in kwargs]
        if missing:
            raise ValueError(
                f"the compiled graph takes the named arguments {self._names}; missing: {missing}"
            )

    def teardown(self, kill_actors: bool = False) -> None:
        """No more executions; with `kill_actors` the actors of the graph end as well."""
        with self._lock:
            self._closed = True
        if kill_actors:
            for node in self._order:
                if isinstance(node, ClassMethodNode) and not isinstance(node, ClassMethodOutput):
                    ray.kill(node.actor)

    def visualize(
        self, filename: str = "compiled_graph", format: str = "png", view: bool = False, **_: Any
    ) -> str:
        """Drawings need Ray's own tools; with format="ascii" the calls are listed, in order."""
        if format != "ascii":
            raise NotImplementedError(
                'Skate draws no graphs; visualize(format="ascii") lists the nodes, like DAGNode.upstream()'
            )
        numbers = {node: number for number, node in enumerate(self._order)}
        lines = [
            f"{numbers[node]}: {node.label()} <- "
            f"{', '.join(str(numbers[each]) for each in node.parents()) or 'nothing'}"
            for node in self._order
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"CompiledDAG({self._output!r}, {len(self._order)} nodes, {self._executions} executions)"


class _Result:
    """A result of one execution, to be fetched once."""

    def __init__(self, ref: Any, execution: int) -> None:
        self._ref = ref
        self._execution = execution
        self._fetched = False

    def _take(self) -> Any:
        if self._fetched:
            raise ValueError(
                f"this {type(self).__name__} has been fetched already; keep the value that it gave"
            )
        self._fetched = True
        return self._ref

    def __copy__(self) -> Any:
        raise ValueError(f"a {type(self).__name__} cannot be copied")

    def __deepcopy__(self, memo: Any) -> Any:
        raise ValueError(f"a {type(self).__name__} cannot be copied")

    def __reduce__(self) -> Any:
        raise ValueError(f"a {type(self).__name__} cannot be pickled; fetch its value and pass that on")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(execution_index={self._execution - 1})"


class CompiledDAGRef(_Result):
    """What `CompiledDAG.execute` returns: `ray.get(ref)` gives its value, once."""

    def get(self, timeout: float | None = None) -> Any:
        """The value, waited for up to `timeout` seconds; raises RayChannelTimeoutError after that."""
        return self.__ray_get_all__([self], timeout)[0]

    def __ray_get__(self, timeout: float | None) -> Any:
        """How `ray.get` fetches it."""
        return self.get(timeout)

    @staticmethod
    def __ray_get_all__(results: list[Any], timeout: float | None) -> list[Any]:
        """How `ray.get` fetches a list of them: together, so that the first failure is raised at once."""
        strange = next((each for each in results if not isinstance(each, CompiledDAGRef)), None)
        if strange is not None:
            raise ValueError(
                f"ray.get takes a list of CompiledDAGRefs or of ObjectRefs, not a mix; it has {strange!r:.80}"
            )
        refs = [each._take() for each in results]
        try:
            return ray.get(refs, timeout=timeout)  # type: ignore[no-any-return]
        except GetTimeoutError as error:
            for each in results:
                each._fetched = False
            raise RayChannelTimeoutError(f"the compiled graph has no result after {timeout} s") from error


class CompiledDAGFuture(_Result):
    """What `CompiledDAG.execute_async` returns: `await future` gives its value, once."""

    def __await__(self) -> Generator[Any, None, Any]:
        return (yield from self._take().__await__())


@dataclass
class DAGContext:
    """Settings of compiled graphs, by Ray's names; they tune channels, and have no effect here."""

    submit_timeout: int = 10
    get_timeout: int = 10
    teardown_timeout: int = 30
    read_iteration_timeout: float = 0.1
    buffer_size_bytes: int = 1_000_000
    max_inflight_executions: int = 10
    max_buffered_results: int = 1000
    overlap_gpu_communication: bool = False

    @staticmethod
    def get_current() -> DAGContext:
        """The settings of this process."""
        return _context


_context = DAGContext()
compiler.append(CompiledDAG)
