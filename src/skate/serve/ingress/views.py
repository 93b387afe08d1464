"""`@serve.ingress`: a class whose methods are routes of a FastAPI application, or any ASGI application in a deployment."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate.serve import context
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError

MARK = "__serve_asgi__"


def ingress(app: Any = None) -> Callable[[type], type]:
    """Serve an ASGI application from a deployment; routes of a FastAPI `app` may be methods of the class.

    `app` may also be a function that makes it, called in the replica. Raises ValueError if it stands above something other than a
    class, or below @serve.deployment.
    """

    def decorate(cls: Any) -> Any:
        if not inspect.isclass(cls):
            what = (
                "below it: write @serve.deployment above @serve.ingress"
                if hasattr(cls, "bind")
                else "a class"
            )
            raise ValueError(
                f"@serve.ingress stands above {what}; this is a {type(cls).__name__}: {cls!r:.60}"
            )
        if hasattr(app, "routes") and hasattr(app, "dependency_overrides"):
            bind_methods(app, cls)

        class Wrapped(cls):  # type: ignore[misc]
            pass

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(Wrapped, name, getattr(cls, name))
        setattr(Wrapped, MARK, app)
        return Wrapped

    return decorate


def bind_methods(app: Any, cls: type) -> None:
    """Have the routes that are methods of `cls` get the replica's object as their first argument."""
    from fastapi import Depends  # whoever has such an application has it

    own = {value for base in cls.__mro__ for value in vars(base).values() if inspect.isfunction(value)}
    for route in app.routes:
        endpoint = getattr(route, "endpoint", None)
        if endpoint not in own:
            continue
        parameters = list(inspect.signature(endpoint).parameters.values())
        if not parameters:
            raise TypeError(
                f"the route {route.path!r} is a method of {cls.__name__} and takes `self`, which it lacks"
            )
        # What follows a parameter with a default must be by keyword.
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
        endpoint.__signature__ = inspect.Signature(changed)
        analyse_again(route)


def analyse_again(route: Any) -> None:
    """Have a route look at its endpoint's parameters anew."""
    said = inspect.signature(type(route).__init__).parameters
    given = {
        name: getattr(route, name)
        for name in said
        if name not in ("self", "path", "endpoint") and hasattr(route, name)
    }
    if "methods" in given and given["methods"] is not None:
        given["methods"] = sorted(given["methods"])
    route.__init__(route.path, route.endpoint, **given)


def application_of(servable: Any) -> Any:
    """The ASGI application that a deployment serves; None if its object takes requests itself."""
    made = getattr(type(servable.object), MARK, None) if not servable.is_function else None
    if made is None:
        return None
    if (
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
    from starlette.responses import PlainTextResponse  # with any such application

    retry = str(max(1, round(error.retry_after_s or 1)))
    return PlainTextResponse(error.message, error.status_code, {"retry-after": retry})


async def _unavailable(request: Any, error: Any) -> Any:
    from starlette.responses import PlainTextResponse  # as above

    return PlainTextResponse(error.message, 503, {"retry-after": "1"})
