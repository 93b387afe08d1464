"""FaultTolerantActorManager: calls to a pool of actors of which some may have died."""

from __future__ import annotations

import itertools
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import skate
from skate import exceptions
from skate.rllib.flow.call_results import CallResult, RemoteCallResults, ResultOrError

__all__ = ["CallResult", "FaultAwareApply", "FaultTolerantActorManager", "RemoteCallResults", "ResultOrError"]

Function = Callable[..., Any] | str
Kwargs = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
_log = logging.getLogger(__name__)


class FaultAwareApply:
    """Base of actors that a `FaultTolerantActorManager` calls: an actor in which a function raises ends."""

    def ping(self) -> str:
        """Return ``"pong"``."""
        return "pong"

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return ``func(self, *args, **kwargs)``; an exception ends the actor, which may have lost its way.

        Args:
            func: The function.
            *args: Its further arguments.
            **kwargs: Its further keyword arguments.
        """
        try:
            return func(self, *args, **kwargs)
        except Exception:  # the function is the user's code, which may raise anything
            _log.exception("a function that was applied to an actor raised; the actor ends")
            sys.exit(1)


class _Call(NamedTuple):
    actor_id: int
    function: Function
    kwargs: Mapping[str, Any]


class FaultTolerantActorManager:
    """Calls actors by ids, and leaves out those that have failed until they answer again.

    Args:
        actors: Handles of actors with a method ``apply(func, **kwargs)``, as `FaultAwareApply` has it.
        max_remote_requests_in_flight_per_actor: Open asynchronous calls of one tag to one actor; more are dropped.
        init_id: The id of the first actor.
    """

    def __init__(
        self,
        actors: Sequence[Any] | None = None,
        max_remote_requests_in_flight_per_actor: int = 2,
        init_id: int = 0,
    ) -> None:
        self._next_id = self._turn = init_id
        self._limit = max_remote_requests_in_flight_per_actor
        self._actors: dict[int, Any] = {}
        self._healthy: dict[int, bool] = {}
        self._restored: set[int] = set()
        #: Open asynchronous calls: tag and actor by reference.
        self._open: dict[Any, tuple[str | None, int]] = {}
        self._restarts = 0
        self.add_actors(actors or [])

    # -- the pool

    def add_actors(self, actors: Sequence[Any]) -> None:
        """Add actors to the pool."""
        for actor in actors:
            self._actors[self._next_id], self._healthy[self._next_id] = actor, True
            self._next_id += 1

    def remove_actor(self, actor_id: int) -> Any:
        """Take an actor out of the pool, and return its handle."""
        actor = self._actors.pop(actor_id)
        del self._healthy[actor_id]
        self._restored.discard(actor_id)
        self._forget(actor_id)
        return actor

    def actors(self) -> dict[int, Any]:
        """Return the handles by id."""
        return self._actors

    def actor_ids(self) -> list[int]:
        """Return the ids of all actors."""
        return list(self._actors)

    def healthy_actor_ids(self) -> list[int]:
        """Return the ids of the actors that have not failed."""
        return [actor_id for actor_id, healthy in self._healthy.items() if healthy]

    def num_actors(self) -> int:
        """Return the number of actors."""
        return len(self._actors)

    def num_healthy_actors(self) -> int:
        """Return the number of actors that have not failed."""
        return len(self.healthy_actor_ids())

    def total_num_restarts(self) -> int:
        """Return how often a failed actor was marked healthy by its answer."""
        return self._restarts

    def num_outstanding_async_reqs(self, tag: str | None = None) -> int:
        """Return the number of open asynchronous calls, of one tag or of all."""
        return sum(tag in (None, its) for its, _ in self._open.values())

    def is_actor_healthy(self, actor_id: int) -> bool:
        """Return False of an actor that has failed.

        Raises:
            ValueError: no actor has the id.
        """
        if actor_id not in self._healthy:
            raise ValueError(f"Unknown actor id: {actor_id}; there are {self.actor_ids()}")
        return self._healthy[actor_id]

    def set_actor_state(self, actor_id: int, healthy: bool) -> None:
        """Mark an actor as healthy or failed; open calls of a failed one are forgotten.

        Raises:
            ValueError: no actor has the id.
        """
        was_healthy = self.is_actor_healthy(actor_id)
        if healthy and not was_healthy:
            self._restored.add(actor_id)
        elif not healthy:
            self._restored.discard(actor_id)
            self._forget(actor_id)
        self._healthy[actor_id] = healthy

    def clear(self) -> None:
        """End all actors."""
        for actor in self._actors.values():
            skate.kill(actor)
        for part in (self._actors, self._healthy, self._restored, self._open):
            part.clear()

    def _forget(self, actor_id: int) -> None:
        for reference in [each for each, (_, its) in self._open.items() if its == actor_id]:
            del self._open[reference]

    # -- calls

    def foreach_actor(
        self,
        func: Function | list[Function],
        *,
        kwargs: Kwargs = None,
        healthy_only: bool = True,
        remote_actor_ids: list[int] | None = None,
        timeout_seconds: float | None = None,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> RemoteCallResults:
        """Call a function with each actor, and wait for the results; an actor whose call fails is marked.

        Args:
            func: A function of an actor or the name of its method, or a list of one for each actor.
            kwargs: Keyword arguments, or a list of them.
            healthy_only: False to call failed actors too.
            remote_actor_ids: The actors, of which one may be named several times. Default: all.
            timeout_seconds: Seconds to wait; 0 does not wait, None waits for all.
            return_obj_refs: Return references in the place of results.
            mark_healthy: Mark failed actors that answer as healthy.
        """
        calls = self._calls(func, kwargs, remote_actor_ids or self.actor_ids(), healthy_only)
        sent: list[tuple[Any, int, str | None]] = [(self._send(call), call.actor_id, None) for call in calls]
        return self._take(sent, timeout_seconds, return_obj_refs, mark_healthy)

    def foreach_actor_async(
        self,
        func: Function | list[Function],
        tag: str | None = None,
        *,
        kwargs: Kwargs = None,
        healthy_only: bool = True,
        remote_actor_ids: list[int] | None = None,
    ) -> int:
        """Call a function with each actor without waiting, and return the number of calls that were made.

        Calls of another number than there are actors go to the actors in turn.

        Args:
            func: As of `foreach_actor`.
            tag: The name by which `fetch_ready_async_reqs` finds the results.
            kwargs: As of `foreach_actor`.
            healthy_only: False to call failed actors too.
            remote_actor_ids: The actors. Default: all.
        """
        ids = remote_actor_ids or self.actor_ids()
        count = next((len(each) for each in (func, kwargs) if isinstance(each, list)), len(ids))
        if count != len(ids) and self._actors:
            pool = self.actor_ids()
            ids = [pool[(self._turn + step) % len(pool)] for step in range(count)]
            self._turn = (self._turn + count) % len(pool)
        busy = Counter(actor_id for its, actor_id in self._open.values() if its == tag)
        made = 0
        for call in self._calls(func, kwargs, ids, healthy_only):
            if busy[call.actor_id] < self._limit:
                busy[call.actor_id] += 1
                made += 1
                self._open[self._send(call)] = (tag, call.actor_id)
        return made

    def fetch_ready_async_reqs(
        self,
        *,
        tags: str | Sequence[str] | None = (),
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
    ) -> RemoteCallResults:
        """Return the results of asynchronous calls that are ready.

        Args:
            tags: The tags of the calls. Default: all.
            timeout_seconds: Seconds to wait; None waits for all.
            return_obj_refs: Return references in the place of results.
            mark_healthy: Mark failed actors that answer as healthy.
        """
        wanted = {tags} if isinstance(tags, str) else set(tags or ())
        chosen = [
            (reference, actor_id, tag)
            for reference, (tag, actor_id) in self._open.items()
            if not wanted or tag in wanted
        ]
        return self._take(chosen, timeout_seconds, return_obj_refs, mark_healthy)

    def foreach_actor_async_fetch_ready(
        self,
        func: Function | list[Function],
        tag: str | None = None,
        *,
        timeout_seconds: float | None = 0.0,
        return_obj_refs: bool = False,
        mark_healthy: bool = False,
        ignore_ray_errors: bool = True,
        return_actor_ids: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Return the results of earlier calls that are ready, after making new ones.

        Args:
            func: As of `foreach_actor_async`.
            tag: The tag of the earlier calls and of the new ones.
            timeout_seconds: As of `fetch_ready_async_reqs`.
            return_obj_refs: As of `fetch_ready_async_reqs`.
            mark_healthy: As of `fetch_ready_async_reqs`.
            ignore_ray_errors: False to raise the first error.
            return_actor_ids: Return pairs of an id and a result.
            **kwargs: Further arguments of `foreach_actor_async`.
        """
        found = self.fetch_ready_async_reqs(
            tags=tag,
            timeout_seconds=timeout_seconds,
            return_obj_refs=return_obj_refs,
            mark_healthy=mark_healthy,
        )
        self.foreach_actor_async(func, tag, **kwargs)
        self.handle_remote_call_result_errors(found, ignore_ray_errors=ignore_ray_errors)
        results = found.ignore_errors()
        return [(each.actor_id, each.get()) if return_actor_ids else each.get() for each in results]

    @staticmethod
    def handle_remote_call_result_errors(
        results_or_errors: RemoteCallResults, *, ignore_ray_errors: bool
    ) -> None:
        """Log the errors, or raise the first of them.

        Args:
            results_or_errors: Results of calls.
            ignore_ray_errors: True to log them.
        """
        for each in results_or_errors:
            if not each.ok and not ignore_ray_errors:
                raise each.get()
            if not each.ok:
                _log.error("a call to actor %s failed: %s", each.actor_id, each.get())

    def probe_unhealthy_actors(
        self, timeout_seconds: float | None = None, mark_healthy: bool = False
    ) -> list[int]:
        """Ping the failed actors, and return the ids of those that have come back since the last time.

        Args:
            timeout_seconds: Seconds to wait; None waits for all.
            mark_healthy: Mark those that answer as healthy.
        """
        back = list(self._restored)
        failed = [actor_id for actor_id, healthy in self._healthy.items() if not healthy]
        if failed:
            answers = self.foreach_actor(
                "ping",
                remote_actor_ids=failed,
                healthy_only=False,
                timeout_seconds=timeout_seconds,
                mark_healthy=mark_healthy,
            )
            back += [each.actor_id for each in answers.ignore_errors()]
        self._restored.clear()
        return back

    def _calls(
        self, func: Function | list[Function], kwargs: Kwargs, ids: list[int], healthy_only: bool
    ) -> Iterator[_Call]:
        for given in (func, kwargs):
            if isinstance(given, list) and len(given) != len(ids):
                raise AssertionError(
                    f"a list of functions must have the same number of callables as there are actors: {len(ids)}, "
                    f"not {len(given)}"
                )
        functions = func if isinstance(func, list) else itertools.repeat(func)
        arguments: Iterable[Mapping[str, Any]]
        if kwargs is None or isinstance(kwargs, Mapping):
            arguments = itertools.repeat(kwargs or {})
        else:
            arguments = kwargs
        for actor_id, function, each in zip(ids, functions, arguments, strict=False):
            if not healthy_only or self.is_actor_healthy(actor_id):
                yield _Call(actor_id, function, each)

    def _send(self, call: _Call) -> Any:
        function = call.function
        if isinstance(function, str):
            function = _method(function)
        return self._actors[call.actor_id].apply.remote(function, **call.kwargs)

    def _take(
        self,
        sent: list[tuple[Any, int, str | None]],
        timeout: float | None,
        return_obj_refs: bool,
        mark_healthy: bool,
    ) -> RemoteCallResults:
        results = RemoteCallResults()
        if not sent:
            return results
        references = [reference for reference, _, _ in sent]
        done, _ = skate.wait(
            references, num_returns=len(references), timeout=timeout, fetch_local=not return_obj_refs
        )
        ready = set(done)
        for reference, actor_id, tag in sent:
            if reference not in ready:
                continue
            self._open.pop(reference, None)
            if return_obj_refs:
                results.add_result(actor_id, ResultOrError(reference), tag)
                continue
            try:
                outcome = ResultOrError(skate.get(reference))
            except exceptions.RayError as error:
                outcome = ResultOrError(error=error)
                if self._healthy.get(actor_id):
                    _log.error("actor %s fails, and is left out: %s", actor_id, error)
                if actor_id in self._healthy:
                    self.set_actor_state(actor_id, healthy=False)
            else:
                if mark_healthy and not self.is_actor_healthy(actor_id):
                    self.set_actor_state(actor_id, healthy=True)
                    self._restarts += 1
            results.add_result(actor_id, outcome, tag)
        return results


def _method(name: str) -> Callable[..., Any]:
    def call(actor: Any, **kwargs: Any) -> Any:
        return getattr(actor, name)(**kwargs)

    return call
