"""DeploymentHandle: calls of a deployment from Python."""

from __future__ import annotations

import os
import sys
from typing import Any

from skate.serve import context, tracing
from skate.serve.exceptions import RayServeException
from skate.serve.handle.response import (
    DeploymentBroadcastResponse,
    DeploymentResponse,
    DeploymentResponseGenerator,
)
from skate.serve.identity import DEFAULT, DeploymentID
from skate.serve.routing import local_deployments, watch
from skate.serve.routing.call import Call, Meta
from skate.serve.routing.router import Router

_PASSED_ON = (DeploymentResponse, DeploymentResponseGenerator)
#: A request that makes many calls drops the answered ones when it keeps this many, and again at each doubling.
_MANY_CHILDREN = 64
#: Prefixes of names that Python and notebooks look up; all other names are methods of the deployment.
_NO_METHODS = ("_repr_", "_ipython_")
_INIT_OPTIONS = ("_prefer_local_routing", "_source", "_run_router_in_separate_loop")
_SETTINGS = ("method_name", "multiplexed_model_id", "session_id", "stream")


class DeploymentHandle:
    """Sends requests to a deployment: `handle.remote(...)` calls it, `handle.method.remote(...)` calls one of its methods."""

    def __init__(
        self,
        deployment_name: str,
        app_name: str,
        *,
        init_options: Any = None,
        handle_options: dict[str, Any] | None = None,
        _router: Any = None,
        _create_router: Any = None,
        _request_counter: Any = None,
        _handle_id: str | None = None,
    ) -> None:
        self.deployment_id = DeploymentID(deployment_name, app_name)
        settings = handle_options or {}
        self._method: str = settings.get("method_name", "__call__")
        self._model: str = settings.get("multiplexed_model_id", "")
        self._session: str = settings.get("session_id", "")
        self._stream: bool = settings.get("stream", False)
        self._router: Router | None = _router
        self._watch: Any = None
        self._methods: dict[str, DeploymentHandle] = {}
        self._used = False

    @property
    def deployment_name(self) -> str:
        """The name of the deployment."""
        return self.deployment_id.name

    @property
    def app_name(self) -> str:
        """The application that contains the deployment."""
        return self.deployment_id.app_name

    @property
    def is_initialized(self) -> bool:
        """True once the handle has been used, or `_init` or `options` was called."""
        return self._used or self._router is not None

    def running_replicas_populated(self) -> bool:
        """True once the handle has been used and knows a replica."""
        return self.is_initialized and self._way().populated

    def options(
        self,
        *,
        method_name: str | DEFAULT = DEFAULT.VALUE,
        multiplexed_model_id: str | DEFAULT = DEFAULT.VALUE,
        session_id: str | DEFAULT = DEFAULT.VALUE,
        stream: bool | DEFAULT = DEFAULT.VALUE,
        _prefer_local_routing: bool | DEFAULT = DEFAULT.VALUE,
        _by_reference: bool | DEFAULT = DEFAULT.VALUE,
        request_serialization: str | None | DEFAULT = DEFAULT.VALUE,
        response_serialization: str | None | DEFAULT = DEFAULT.VALUE,
    ) -> DeploymentHandle:
        """Return the handle with other options, such as a method, a model, a session or streaming."""
        settings = self._settings()
        given = locals()
        for name in _SETTINGS:
            value = given[name]
            if value is not DEFAULT.VALUE:
                settings[name] = value
        if not isinstance(settings["stream"], bool):
            raise TypeError(f"stream must be True or False, got {settings['stream']!r}")
        made = DeploymentHandle(
            self.deployment_name, self.app_name, handle_options=settings, _router=self._router
        )
        made._watch = self._watch
        made._used = self._used = True
        return made

    def _settings(self) -> dict[str, Any]:
        return {
            "method_name": self._method,
            "multiplexed_model_id": self._model,
            "session_id": self._session,
            "stream": self._stream,
        }

    def __getattr__(self, name: str) -> DeploymentHandle:
        if name.startswith(_NO_METHODS) or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        methods: dict[str, DeploymentHandle] = self.__dict__["_methods"]
        found = methods.get(name)
        if found is None:
            found = methods[name] = self.options(method_name=name)
        return found

    def _init(self, **given: Any) -> None:
        """Connect to the deployment. Raise RuntimeError if the handle has been used, and TypeError for unknown options."""
        unknown = [name for name in given if name not in _INIT_OPTIONS]
        if unknown:
            raise TypeError(
                f"a handle has no init option {unknown[0]!r}; its options are: {', '.join(_INIT_OPTIONS)}"
            )
        if self.is_initialized:
            raise RuntimeError(
                "Handle has already been initialized. The first call of .options() or .remote() "
                "initializes it; call ._init() once, before those"
            )
        self._way()

    def _way(self) -> Router:
        router = self._router
        if router is None or self._watch is None or self._watch.closed:
            found: Any = local_deployments.find((self.app_name, self.deployment_name))
            if found is not None:
                self._watch = self._router = found
                return found  # type: ignore[no-any-return]
            try:
                self._watch = watch.current()
            except ValueError:
                raise RayServeException(
                    f"Serve is not running, so the handle of {self.deployment_name!r} in application "
                    f"{self.app_name!r} cannot be used; start Serve with serve.run(app)"
                ) from None
            router = self._router = self._watch.router((self.app_name, self.deployment_name))
        return router

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Send a request; return its response immediately.

        Responses of other handle calls among the arguments are replaced by their values.
        """
        watching = self._watch
        router = self._router
        if router is None or watching is None or watching.closed:
            router = self._way()
        around = context.request.get()
        meta: Meta = (
            around.request_id or os.urandom(16).hex(),
            self._method,
            around.route,
            self.deployment_id[1],
            self._model or "",
            self._session or around.session_id,
        )
        span = None
        if tracing.active():
            span = tracing.of_call(self.deployment_id[0], meta)
            meta = (*meta, span.carrier())
        elif around.trace is not None:
            meta = (*meta, around.trace)
        call = Call(meta, args, kwargs, self._stream)
        call.span = span
        frame = sys._getframe(1)
        call.site = (frame.f_code, frame.f_lineno)
        answer = _answer(call, router)
        passed = [each for each in args if isinstance(each, _PASSED_ON)]
        if kwargs:
            passed += [each for each in kwargs.values() if isinstance(each, _PASSED_ON)]
        if passed:
            _after(passed, call, router)
        else:
            router.submit(call)
        children = around.children
        if children is not None:
            children.add(answer)
            count = len(children)
            if count >= _MANY_CHILDREN and not count & (count - 1):
                children.difference_update([each for each in children if each._call.over])
        return answer

    def choose_replica(self, *args: Any, **kwargs: Any) -> Any:
        """Choose a replica without sending a request: `async with handle.choose_replica(...) as one`, then `dispatch(one, ...)`.

        The replica reserves a place for the request until `dispatch`, or the end of the block.
        """
        from skate.serve.handle.selection import chosen  # rarely used

        return chosen(self, args, kwargs)

    def dispatch(self, selection: Any, *args: Any, **kwargs: Any) -> Any:
        """Send a request to a chosen replica. Raise ReplicaUnavailableError if it has ended meanwhile, and ValueError if it was
        chosen through a handle to another deployment.
        """
        if selection._router is not self._way():
            raise ValueError(
                f"Cannot dispatch a selection created for a different deployment: this handle is for {self.deployment_name!r} in "
                f"application {self.app_name!r}"
            )
        return selection._send(args, kwargs, self._stream)

    def broadcast(self, method_name: str, *args: Any, **kwargs: Any) -> DeploymentBroadcastResponse:
        """Call a method of every replica. A replica that is about to end and begins no further request has no result."""
        router = self._way()
        answers = []
        for target in list(router._targets.values()):
            meta = (os.urandom(16).hex(), method_name, "", self.app_name, "", "")
            call = Call(meta, args, kwargs, False)
            call.pinned = True
            answers.append(_answer(call, router))
            router._send(target, call)
        return DeploymentBroadcastResponse(answers)

    def shutdown(self) -> None:
        """No-op: a handle holds nothing to close."""

    async def shutdown_async(self) -> None:
        """No-op: a handle holds nothing to close."""

    def __reduce__(self) -> Any:
        return _rebuild, (self.deployment_name, self.app_name, self._settings())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentHandle) and (self.deployment_id, self._settings()) == (
            other.deployment_id,
            other._settings(),
        )

    def __hash__(self) -> int:
        return hash(self.deployment_id)

    def __repr__(self) -> str:
        return f"DeploymentHandle(deployment={self.deployment_name!r}, app={self.app_name!r})"


def _answer(call: Call, router: Router) -> Any:
    if router.answers is not None:
        return router.answers(call)
    return (DeploymentResponseGenerator if call.stream else DeploymentResponse)(call, router)


def _rebuild(name: str, app: str, settings: dict[str, Any]) -> DeploymentHandle:
    return DeploymentHandle(name, app, handle_options=settings)


def _after(passed: list[Any], call: Call, router: Router) -> None:
    """Send a call once the responses among its arguments have refs."""
    left = len(passed)
    for each in passed:
        if isinstance(each, DeploymentResponseGenerator):
            raise RuntimeError(
                "Streaming deployment handle results cannot be passed to downstream handle calls. Collect the values first"
            )

    def known() -> None:
        nonlocal left
        left -= 1
        if left:
            return
        for each in passed:
            if each._call.error is not None:
                call.settle(None, each._call.error)
                return
        call.args = tuple(_ref_of(each) for each in call.args)
        call.kwargs = {key: _ref_of(each) for key, each in call.kwargs.items()}
        router.submit(call)

    for each in passed:
        each._call.when_settled(known)


def _ref_of(value: Any) -> Any:
    return value._call.ref if isinstance(value, DeploymentResponse) else value
