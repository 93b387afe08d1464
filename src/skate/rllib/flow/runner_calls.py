"""Calls of remote runners that do not wait for the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class RunnerCalls:
    """The part of a group of runners that calls remote ones without waiting."""

    config: Any
    #: The remote runners; None if there are none.
    _remote: Any
    #: The local runner; None if there is none.
    _local: Any

    def sample_on_each(self, func: Callable[[Any], Any]) -> list[Any]:
        """Run a function that samples on each remote runner, or on the local one if there are no others.

        Runners that die or raise are treated as in training: they are made anew and run the function again, or are left
        out, as the settings of fault tolerance say.

        Args:
            func: A function of the runner.

        Returns:
            The results in the order of the runners.

        Raises:
            Exception: What the function raised, if it did so on a runner three times, or failures are not tolerated.
        """
        if self._remote is None:
            return [func(self._local)]
        results: list[Any] = self._remote.sample_each(func)
        return results

    def foreach_env_runner_async(
        self,
        func: Callable[..., Any] | str | list[Any],
        tag: str | None = None,
        *,
        kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
    ) -> int:
        """Run a function on each remote runner without waiting; `fetch_ready_async_reqs` returns the results.

        Args:
            func: A function of the runner, or the name of a method; a list is dealt out to the runners in turn.
            tag: Name under which the results can be fetched.
            kwargs: Keyword arguments, or a list that is dealt out as well.
            healthy_only: Of Ray's; runners that were given up are always left out.
            remote_worker_ids: Indices of the runners to run it on; all if None.

        Returns:
            The number of calls. A runner with ``config.max_requests_in_flight_per_env_runner`` open calls under this tag
            gets none.
        """
        if self._remote is None:
            return 0
        most = int(getattr(self.config, "max_requests_in_flight_per_env_runner", 1))
        return int(self._remote.ask_each(func, kwargs, tag, remote_worker_ids, most))

    def fetch_ready_async_reqs(
        self,
        *,
        tags: str | list[str] | tuple[str, ...] | None = None,
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> list[tuple[int, Any]]:
        """Return results of calls of `foreach_env_runner_async` that are there.

        Args:
            tags: Names of the calls; all if None.
            timeout_seconds: Seconds to wait until all of them are there; None for as long as they take.
            return_obj_refs: True for references to the results.
            mark_healthy: Of Ray's; a runner that was made anew counts as healthy at once.

        Returns:
            Pairs of a runner's index and the result; those of runners that died are left out.

        Raises:
            Exception: The function's own.
        """
        return self._remote.fetch(tags, timeout_seconds, return_obj_refs) if self._remote is not None else []

    def foreach_env_runner_async_fetch_ready(
        self,
        func: Callable[..., Any] | str | list[Any],
        kwargs: dict[str, Any] | list[dict[str, Any]] | None = None,
        tag: str | None = None,
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
        healthy_only: bool = True,
        remote_worker_ids: list[int] | None = None,
        return_actor_ids: bool = False,
    ) -> list[Any]:
        """Return results of earlier calls under this tag, and make the next ones.

        Args:
            func: See `foreach_env_runner_async`, as of all arguments that are not here.
            kwargs: Keyword arguments.
            tag: Name of the calls.
            timeout_seconds: Seconds to wait for results; see `fetch_ready_async_reqs`.
            return_obj_refs: True for references to the results.
            mark_healthy: Of Ray's; without effect.
            healthy_only: Of Ray's; without effect.
            remote_worker_ids: Indices of the runners to run it on.
            return_actor_ids: True for pairs of a runner's index and the result.
        """
        found = self.fetch_ready_async_reqs(
            tags=tag, timeout_seconds=timeout_seconds, return_obj_refs=return_obj_refs
        )
        self.foreach_env_runner_async(func, tag, kwargs=kwargs, remote_worker_ids=remote_worker_ids)
        return found if return_actor_ids else [result for _, result in found]

    def num_in_flight_async_reqs(self, tag: str | None = None) -> int:
        """Return the number of calls of `foreach_env_runner_async` that were not fetched yet."""
        return self._remote.open.total(tag) if self._remote is not None else 0

    def probe_unhealthy_env_runners(self, timeout_seconds: float | None = None) -> list[int]:
        """Wait for remote runners that are being made anew.

        Args:
            timeout_seconds: Of Ray's; without effect.

        Returns:
            Indices of the runners that can sample again.
        """
        return self._remote.probe() if self._remote is not None else []

    def num_env_runners_dropped_lifetime(self) -> int:
        """Return the number of answers that `foreach_env_runner` did not wait for any longer."""
        return self._remote.dropped if self._remote is not None else 0
