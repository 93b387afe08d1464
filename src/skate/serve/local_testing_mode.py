"""`serve.run(..., _local_testing_mode=True)`: an application in this process, without replicas, for unit tests."""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
import pickle
import threading
import weakref
from typing import Any

from skate.serve import context
from skate.serve.code import pickler
from skate.serve.config.deployment import LoggingConfig
from skate.serve.deployment import Application, Deployment
from skate.serve.graph import build
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.handle.local import Inner, LocalGenerator, LocalResponse
from skate.serve.handle.response import DeploymentResponse, DeploymentResponseGenerator
from skate.serve.identity import DEFAULT, DeploymentID, ReplicaID
from skate.serve.logs import LOGGER
from skate.serve.replica.servable import Servable
from skate.serve.routing.call import Call

_ANSWERS = (DeploymentResponse, DeploymentResponseGenerator)


class _Loop:
    """An event loop in a separate thread. It ends with the last handle that uses it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=_turn, args=(self.loop,), name="skate-serve-local", daemon=True)
        self.thread.start()
        self.stop = weakref.finalize(self, _stop, self.loop)
        _loops.add(self)

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine in the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


_loops: weakref.WeakSet[_Loop] = weakref.WeakSet()
#: Handles by number, so that a pickled handle in an argument refers to the same objects afterwards.
_handles: weakref.WeakValueDictionary[int, LocalHandle] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.run_until_complete(_cancel_all())
    loop.close()


async def _cancel_all() -> None:
    left = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


class _Response(LocalResponse):
    """The response of a local call."""

    async def _to_object_ref(self) -> Any:
        """Raise RuntimeError, because local testing mode has no object store."""
        raise RuntimeError(
            "Converting DeploymentResponses to ObjectRefs is not supported in local testing mode. Pass the response itself"
        )

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        """Raise RuntimeError, because local testing mode has no object store."""
        raise RuntimeError(
            "Converting DeploymentResponses to ObjectRefs is not supported in local testing mode. Pass the response itself"
        )


class _Counters:
    """Counters without a shared file."""

    def __init__(self) -> None:
        self.cells = [0] * 64


class _Local(Inner):
    """A deployment in this process. Its exceptions are raised unwrapped."""

    counters = _Counters

    def answers(self, call: Call) -> Any:
        """Create the response of a call."""
        return (LocalGenerator if call.stream else _Response)(call, self)  # type: ignore[arg-type]

    def failure(self, method: str, error: BaseException) -> BaseException:
        """Return the error itself."""
        return error


class LocalHandle(DeploymentHandle):
    """Calls an object of this process."""

    def __init__(self, name: str, app: str, router: _Local, loop: _Loop, settings: Any = None) -> None:
        super().__init__(name, app, handle_options=settings, _router=router)
        self._watch = router
        self._loop = loop
        self._number = next(_numbers)
        _handles[self._number] = self

    def options(self, **given: Any) -> DeploymentHandle:
        """Return the handle with other options."""
        settings = self._settings()
        settings |= {
            key: value for key, value in given.items() if key in settings and value is not DEFAULT.VALUE
        }
        router: Any = self._router
        return LocalHandle(self.deployment_name, self.app_name, router, self._loop, settings)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method with copies of the arguments, as another process would receive them. Raises
        TypeError for arguments that cannot be copied.
        """
        copied = functools.partial(_copied, f"{self.deployment_name}.{self._method}")
        return super().remote(*map(copied, args), **{key: copied(value) for key, value in kwargs.items()})

    def __reduce__(self) -> Any:
        return _found, (self._number,)


def _found(number: int) -> LocalHandle:
    return _handles[number]


def _copied(called: str, value: Any) -> Any:
    if isinstance(value, (*_ANSWERS, str, int, float, bool, type(None))):
        return value
    return pickler.passed(value, f"an argument of {called} cannot be sent to a replica")


def end_all() -> None:
    """Stop everything that runs in local testing mode."""
    for each in list(_loops):
        each.stop()
        each.thread.join()


class _Making:
    """Creates the deployments of one application, each once, dependencies first."""

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self.loop = _Loop()
        self.made: dict[int, LocalHandle] = {}

    def handle_of(self, app: Any) -> Any:
        """Return the handle of an application, which is created if necessary."""
        if isinstance(app, Deployment):
            raise TypeError(f"pass {app.name}.bind(...) to another deployment, not {app.name} itself")
        found = self.made.get(id(app))
        if found is None:
            found = self.made[id(app)] = self.make(app._bound_deployment)
        return found

    def make(self, bound: Deployment) -> LocalHandle:
        """Run the constructor and return a handle. Raises the constructor's exception."""
        blob, _ = pickler.replaced(
            (bound.init_args, bound.init_kwargs),
            (Application, Deployment),
            self.handle_of,
            f"Could not serialize the deployment init args of {bound.name!r}, which are sent to its replicas",
        )
        args, kwargs = pickle.loads(blob)
        for option in {"num_gpus", "runtime_env"} & (bound.ray_actor_options or {}).keys():
            logging.getLogger(LOGGER).warning("%s of %s is ignored in local testing mode", option, bound.name)
        servable = Servable(bound.func_or_class, bound.name, bound.max_ongoing_requests)
        replica = ReplicaID("local", DeploymentID(bound.name, self.app_name))
        place = context.ReplicaContext(replica, None, bound._config, context.ReplicaRank(0), 1)
        router = self.loop.run(self._begin(bound, servable, place, args, kwargs))
        return LocalHandle(bound.name, self.app_name, router, self.loop)

    async def _begin(
        self, bound: Deployment, servable: Servable, place: Any, args: Any, kwargs: Any
    ) -> _Local:
        context.inner.set(place)
        await servable.make(args, kwargs)
        place.servable_object = servable.object
        await servable.reconfigure(bound.user_config, place.rank)
        return _Local((self.app_name, bound.name), servable, bound._config, place)


def run_locally(app: Application, name: str, logging_config: Any = None) -> DeploymentHandle:
    """Create all deployments of an application in this process; return a handle to its ingress. Raises as
    `serve.run` does. Of the settings of logging, only the level applies.
    """
    if logging_config is not None:
        level = LoggingConfig.model_validate(logging_config).log_level
        logging.getLogger(LOGGER).setLevel(level)
    build(app, name, "/")
    found: DeploymentHandle = _Making(name).handle_of(app)
    return found
