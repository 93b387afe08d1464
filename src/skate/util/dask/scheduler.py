"""A scheduler for Dask: each task of its graph is a task here, and its inputs are refs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import dask
from dask._expr import Expr
from dask._task_spec import Alias, DataNode, GraphNode, Task, convert_legacy_graph
from dask.highlevelgraph import HighLevelGraph
from dask.order import order

import skate
from skate.util.dask.callbacks import RayCallback, hooks, local_ray_callbacks


def enable_dask_on_ray(shuffle: str | None = "tasks", use_shuffle_optimization: bool | None = True) -> Any:
    """Make `ray_dask_get` the scheduler of all Dask collections; undone by `disable_dask_on_ray`, or by leaving a `with`.

    Args:
        shuffle: how dataframes are shuffled; "tasks" is the only way that does not need Dask's own scheduler.
        use_shuffle_optimization: accepted for compatibility; shuffles always use shared memory.
    """
    return dask.config.set({"scheduler": ray_dask_get, "dataframe.shuffle.method": shuffle})


def disable_dask_on_ray() -> Any:
    """Let Dask choose its scheduler again."""
    return dask.config.set({"scheduler": None, "dataframe.shuffle.method": None})


def ray_dask_get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Compute keys of a graph: a Dask scheduler, for `compute(scheduler=ray_dask_get)`.

    Args:
        dsk: the graph.
        keys: a key, or lists of them.
        ray_callbacks: (keyword) callbacks for this call, instead of the active ones.
        ray_remote_args: (keyword) options of all tasks; set those of some with `dask.annotate(ray_remote_args=...)`.
        ray_persist: (keyword) return refs instead of values.
    """
    return _get(dsk, keys, False, kwargs)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Compute keys one task at a time, so that an error appears at its origin."""
    return _get(dsk, keys, True, kwargs)


def _get(dsk: Any, keys: Any, one_by_one: bool, kwargs: dict[str, Any]) -> Any:
    annotated = _annotated(dsk, dict(dask.get_annotations()).get("ray_remote_args"))
    if isinstance(dsk, Expr):
        dsk = dsk.__dask_graph__()
    options = dict(kwargs.pop("ray_remote_args", None) or {})
    graph = convert_legacy_graph(dict(dsk))
    with local_ray_callbacks(kwargs.pop("ray_callbacks", None)) as callbacks:
        run = _Run(graph, options, annotated, callbacks, one_by_one)
        run.submit(keys)
        found = _nested(keys, run.results)
        for hook in run.hooks["ray_postsubmit_all"]:
            hook(found, dsk)
        if kwargs.pop("ray_persist", False):
            return found
        result = _values(found)
        if isinstance(keys, list):
            result = list(result)
        for hook in run.hooks["ray_finish"]:
            hook(result)
    return result


class _Run:
    """The execution of one graph."""

    def __init__(
        self,
        graph: dict[Any, GraphNode],
        options: dict[str, Any],
        annotated: dict[Any, dict[str, Any]],
        callbacks: list[RayCallback],
        one_by_one: bool,
    ) -> None:
        self.graph = graph
        self.options = options
        self.annotated = annotated
        self.one_by_one = one_by_one
        self.hooks = hooks(callbacks)
        self.results: dict[Any, Any] = {}

    def submit(self, keys: Any) -> None:
        """Submit the tasks that the keys need, in Dask's execution order."""
        needed = self._needed(_flat(keys))
        ranks = order({key: self.graph[key] for key in needed}) if needed else {}
        for key in sorted(needed, key=ranks.__getitem__):
            self.results[key] = self._result(key, self.graph[key])

    def _needed(self, keys: Iterable[Any]) -> set[Any]:
        found: set[Any] = set()
        pending = list(keys)
        while pending:
            key = pending.pop()
            if key not in found:
                found.add(key)
                pending += self.graph[key].dependencies
        return found

    def _result(self, key: Any, node: GraphNode) -> Any:
        if isinstance(node, Alias):
            return self.results[node.target]
        if isinstance(node, DataNode):
            value = node()
            return value if isinstance(value, skate.ObjectRef) else skate.put(value)
        inputs = {each: self.results[each] for each in node.dependencies}
        for hook in self.hooks["ray_presubmit"]:
            instead = hook(node, key, list(inputs))
            if instead is not None:
                return instead if isinstance(instead, skate.ObjectRef) else skate.put(instead)
        options = {"name": f"dask:{key!s}", **self.options, **self.annotated.get(key, {})}
        before, after = self.hooks["ray_pretask"], self.hooks["ray_posttask"]
        ref = _task.options(**options).remote(node, list(inputs), before, after, *inputs.values())
        for hook in self.hooks["ray_postsubmit"]:
            hook(node, key, list(inputs), ref)
        if self.one_by_one:
            skate.get(ref)
        return ref


def _run_node(node: GraphNode, names: list[Any], before: list[Any], after: list[Any], *inputs: Any) -> Any:
    states = [hook(node.key, list(inputs)) for hook in before]
    states += [None] * (len(after) - len(states))
    _take_in(node)
    result = node(dict(zip(names, inputs, strict=True)))
    for hook, state in zip(after, states, strict=False):
        hook(node.key, result, state)
    return result


_task: Any = skate.remote(_run_node)


def _take_in(part: Any) -> Any:
    """Replace refs inside a node with values: refs of persisted collections, which Dask may have fused into it."""
    if isinstance(part, skate.ObjectRef):
        return skate.get(part)
    if isinstance(part, Task):
        part.args = tuple(_take_in(each) for each in part.args)
        part.kwargs = {name: _take_in(each) for name, each in part.kwargs.items()}
    elif isinstance(part, DataNode):
        part.value = _take_in(part.value)
    elif type(part) is dict:
        return {name: _take_in(each) for name, each in part.items()}
    elif type(part) in (list, tuple):
        return type(part)(_take_in(each) for each in part)
    return part


def _annotated(dsk: Any, of_all: dict[str, Any] | None) -> dict[Any, dict[str, Any]]:
    """Return options of individual tasks, from the annotations of their layers."""
    if isinstance(dsk, Expr):
        found: dict[Any, dict[str, Any]] = dict(dsk.__dask_annotations__().get("ray_remote_args", {}))
        return {**dict.fromkeys(dsk.__dask_graph__(), of_all), **found} if of_all else found
    found = dict.fromkeys(dsk, of_all) if of_all else {}
    if isinstance(dsk, HighLevelGraph):
        for layer in dsk.layers.values():
            options = (layer.annotations or {}).get("ray_remote_args")
            if options:
                found.update(dict.fromkeys(layer, options))
    return found


def _flat(keys: Any) -> list[Any]:
    return [each for part in keys for each in _flat(part)] if isinstance(keys, list) else [keys]


def _nested(keys: Any, results: dict[Any, Any]) -> Any:
    """Arrange the results like the keys; lists become tuples, as in Dask's schedulers."""
    return tuple(_nested(each, results) for each in keys) if isinstance(keys, list) else results[keys]


def _values(found: Any) -> Any:
    if isinstance(found, tuple):
        flat = _leaves(found)
        values = dict(zip(map(id, flat), skate.get(flat), strict=True))
        return _replaced(found, values)
    return skate.get(found)


def _leaves(found: Any) -> list[Any]:
    return [each for part in found for each in _leaves(part)] if isinstance(found, tuple) else [found]


def _replaced(found: Any, values: dict[int, Any]) -> Any:
    return tuple(_replaced(each, values) for each in found) if isinstance(found, tuple) else values[id(found)]
