"""`@serve.ingress`: a class whose methods are routes of a FastAPI application, or any ASGI application in a deployment."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from skate.serve import context
from skate.serve.code import pickler
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

MARK = "__serve_asgi__"
#: The method that creates the application in the replica.
BUILDER = "__serve_build_asgi_app__"
_COPIED = ("__module__", "__name__", "__qualname__", "__doc__")
#: The class that a route's function was last bound to. Routes of other classes do not belong to a class's
#: application.
_owners: weakref.WeakKeyDictionary[Any, weakref.ref[type]] = weakref.WeakKeyDictionary()


def ingress(app: Any = None) -> Callable[..., type]:
    """Serve an ASGI application from a deployment. Routes of a FastAPI `app` may be methods of the class.

    The application is used in its present state. `app` may also be a function that creates it, called in the
    replica. Without `app`, the class must have a method `__serve_build_asgi_app__` that returns the
    application. If no class is decorated, the decorator creates one.

    Raises ValueError if it decorates something other than a class, or a class with `__call__`; TypeError if
    the application cannot be pickled.
    """

    def decorate(cls: Any = None) -> Any:
        if cls is None:
            cls = _plain_class()
        _check(app, cls)
        frozen = app
        if hasattr(app, "routes") and hasattr(app, "dependency_overrides"):
            bind_methods(app, cls)
        if app is not None and not inspect.isfunction(app):
            frozen = pickler.copied(app, "Failed to serialize the ASGI app")
        return _wrapped(cls, frozen)

    return decorate


def _plain_class() -> type:
    class ASGIIngressDeployment:
        """Serves an application that needs no other object."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.args = args
            self.kwargs = kwargs

    ASGIIngressDeployment.__qualname__ = "ASGIIngressDeployment"
    return ASGIIngressDeployment


def _check(app: Any, cls: Any) -> None:
    if not inspect.isclass(cls):
        hint = " Write @serve.deployment above @serve.ingress." if hasattr(cls, "bind") else ""
        raise ValueError(
            f"@serve.ingress must be used with a class. Got a {type(cls).__name__}: {cls!r:.60}.{hint}"
        )
    if hasattr(cls, "__call__"):  # noqa: B004 (a class is callable itself; its objects are meant)
        for base in cls.__mro__:
            if "__call__" in vars(base):
                raise ValueError(
                    "Classes passed to @serve.ingress may not have __call__ method. Requests go to "
                    f"the routes of the app: make {base.__name__}.__call__ one of them, or rename it"
                )
    if app is None and not hasattr(cls, BUILDER):
        raise ValueError(
            f"serve.ingress() called without an app argument requires {cls.__name__} to define `{BUILDER}`, a method "
            "that returns the ASGI application"
        )


def _wrapped(cls: type, app: Any) -> type:
    class Wrapped(cls):  # type: ignore[misc]
        pass

    for name in _COPIED:
        setattr(Wrapped, name, getattr(cls, name))
    annotations = getattr(cls, "__annotations__", None)
    if annotations:
        Wrapped.__annotations__ = dict(annotations)
    Wrapped.__wrapped__ = cls
    setattr(Wrapped, MARK, app)
    return Wrapped


def routes_of(router: Any) -> Iterator[tuple[Any, Any]]:
    """Return the routes of an application or router, each with the router that contains it; includes those of
    included routers.
    """
    for route in list(router.routes):
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from routes_of(included)
        else:
            yield route, router


def bind_methods(app: Any, cls: type) -> None:
    """Pass the replica's object as the first argument to routes that are methods of `cls`.

    Routes that are methods of another class that shares the application are removed.
    """
    from fastapi import Depends  # only installed if such an application exists

    bases = {(base.__module__, base.__qualname__) for base in cls.__mro__ if base is not object}
    own = {value for base in cls.__mro__ for value in vars(base).values() if inspect.isfunction(value)}
    for route, router in routes_of(app):
        endpoint = getattr(route, "endpoint", None)
        if endpoint is None:
            continue
        # Compare names too: if two routes have methods of the same name, the class only has the second.
        holder = getattr(endpoint, "__qualname__", "").rpartition(".")[0]
        if endpoint not in own and (getattr(endpoint, "__module__", None), holder) not in bases:
            owner = _owners.get(endpoint) if inspect.isfunction(endpoint) else None
            if owner is not None and owner() is not cls:
                router.routes.remove(route)
                _changed(router)
            continue
        parameters = list(inspect.signature(endpoint).parameters.values())
        if not parameters:
            raise RayServeException(
                "Methods in FastAPI class-based view must have ``self`` as their first argument. The route "
                f"{route.path!r} of {cls.__name__} has no argument"
            )
        # Parameters after one with a default must be keyword-only.
        changed = [
            parameters[0].replace(
                default=Depends(context.current_servable), annotation=inspect.Parameter.empty
            )
        ]
        changed += [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            else each
            for each in parameters[1:]
        ]
        endpoint.__signature__ = inspect.Signature(
            changed, return_annotation=inspect.signature(endpoint).return_annotation
        )
        _owners[endpoint] = weakref.ref(cls)
        analyse_again(route)
        _changed(router)


def _changed(router: Any) -> None:
    """Invalidate the routes that newer FastAPI caches for an included router."""
    notify = getattr(router, "_mark_routes_changed", None)
    if notify is not None:
        notify()


def analyse_again(route: Any) -> None:
    """Analyze the parameters of a route's endpoint again."""
    parameters = inspect.signature(type(route).__init__).parameters
    given = {
        name: getattr(route, name)
        for name in parameters
        if name not in ("self", "path", "endpoint") and hasattr(route, name)
    }
    if "methods" in given and given["methods"] is not None:
        given["methods"] = sorted(given["methods"])
    route.__init__(route.path, route.endpoint, **given)


async def application_of(servable: Any) -> Any:
    """Return the ASGI application that a deployment serves; None if its object handles requests itself.

    Raises TypeError if the method that creates it returns None.
    """
    cls = type(servable.object)
    if servable.is_function or not hasattr(cls, MARK):
        return None
    made = getattr(cls, MARK)
    build = getattr(servable.object, BUILDER, None)
    if build is not None:
        made = build()
        if inspect.isawaitable(made):
            made = await made
        if made is None:
            raise TypeError(f"`{BUILDER}` must return an ASGI app; that of {cls.__name__} returned None")
    elif (
        not hasattr(made, "router")
        and inspect.isfunction(made)
        and len(inspect.signature(made).parameters) < 3
    ):
        takes = inspect.signature(made).parameters
        made = made(servable.object) if takes else made()
    add = getattr(made, "add_exception_handler", None)
    if add is not None:
        add(BackPressureError, _busy)
        add(DeploymentUnavailableError, _unavailable)
    return made


async def _busy(request: Any, error: Any) -> Any:
    from starlette.responses import PlainTextResponse  # installed with any such application

    retry = str(max(1, round(error.retry_after_s or 1)))
    return PlainTextResponse(error.message, error.status_code, {"retry-after": retry})


async def _unavailable(request: Any, error: Any) -> Any:
    from starlette.responses import PlainTextResponse  # imported only if used

    return PlainTextResponse(error.message, 503, {"retry-after": "1"})
