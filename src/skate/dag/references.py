"""Results of compiled graphs: refs that can be fetched once, futures that can be awaited once."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from skate.experimental.channel.graph import Failure

if TYPE_CHECKING:
    from skate.dag.compiled import CompiledDAG


class _Result:
    """A result of one execution; discarded if its ref is dropped unfetched."""

    def __init__(self, dag: CompiledDAG, execution_index: int, channel_index: int | None) -> None:
        self._dag = dag
        self._execution_index = execution_index
        self._channel_index = channel_index
        self._fetched = False

    def __str__(self) -> str:
        return (
            f"{type(self).__name__}({self._dag.get_id()}, execution_index={self._execution_index}, "
            f"channel_index={self._channel_index})"
        )

    __repr__ = __str__

    def __copy__(self) -> Any:
        raise ValueError(f"{type(self).__name__} cannot be copied. Fetch its value and pass that on.")

    def __deepcopy__(self, memo: Any) -> Any:
        raise ValueError(f"{type(self).__name__} cannot be deep copied. Fetch its value and pass that on.")

    def __reduce__(self) -> Any:
        kind = type(self).__name__
        raise ValueError(
            f"{kind} cannot be pickled. {kind} cannot be used as Ray task/actor argument. Fetch its value and pass that on."
        )

    def __del__(self) -> None:
        dag = getattr(self, "_dag", None)
        if dag is not None and not self._fetched:
            dag._dropped(self._execution_index, self._channel_index)


class CompiledDAGRef(_Result):
    """The result of `CompiledDAG.execute`: `ray.get(ref)` returns its value, once."""

    def __init__(self, dag: CompiledDAG, execution_index: int, channel_index: int | None = None) -> None:
        super().__init__(dag, execution_index, channel_index)

    def get(self, timeout: float | None = None) -> Any:
        """Return the value. `timeout` is in seconds; None means `DAGContext.get_timeout`, -1 no limit.

        Raises the error of the execution, RayChannelTimeoutError after the timeout (a later call can still
        succeed), ValueError if the value was fetched before.
        """
        if self._fetched:
            raise ValueError(
                "ray.get() can only be called once on a CompiledDAGRef, and it was already called. Keep the returned value."
            )
        value = self._dag._fetch(self._execution_index, self._channel_index, timeout)
        self._fetched = True
        if type(value) is Failure:
            raise value.exception()
        return value

    def __ray_get__(self, timeout: float | None) -> Any:
        """Fetch the value for `ray.get`."""
        return self.get(timeout)

    @staticmethod
    def __ray_get_list__(refs: list[Any], timeout: float | None) -> list[Any]:
        """Fetch a list of refs for `ray.get`: raises as soon as one has failed."""
        if not all(isinstance(ref, CompiledDAGRef) for ref in refs):
            raise ValueError(
                "Invalid type of object refs. 'object_refs' must be a list of CompiledDAGRefs if there is any "
                "CompiledDAGRef within it. Fetch the others with a separate get."
            )
        return [ref.get(timeout) for ref in refs]


class CompiledDAGFuture(_Result):
    """The result of `CompiledDAG.execute_async`: `await future` returns its value, once."""

    def __init__(
        self,
        dag: CompiledDAG,
        execution_index: int,
        fut: asyncio.Future[Any],
        channel_index: int | None = None,
    ) -> None:
        super().__init__(dag, execution_index, channel_index)
        self._future = fut

    def __await__(self) -> Generator[Any, None, Any]:
        if self._fetched:
            raise ValueError(
                "CompiledDAGFuture can only be awaited upon once, and it was already. Keep the returned value."
            )
        self._fetched = True
        yield from self._future.__await__()
        value = self._dag._take(self._execution_index, self._channel_index)
        if type(value) is Failure:
            raise value.exception()
        return value
