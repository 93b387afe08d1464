"""Conversion of a tree of bound deployments to the controller's records."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from dataclasses import dataclass, field
from typing import Any

from skate.serve.code import fingerprint, pickler
from skate.serve.code.import_path import load
from skate.serve.config.actors import actor_options
from skate.serve.config.deployment import DeploymentConfig
from skate.serve.deployment import Application, Deployment, configured
from skate.serve.exceptions import RayServeException
from skate.serve.handle.handle import DeploymentHandle


@dataclass
class Part:
    """One deployment of an application, ready to be sent."""

    name: str
    code: bytes
    #: Changes exactly if running replicas have to be replaced.
    version: str
    config: DeploymentConfig
    actor: dict[str, Any]
    ingress: bool = False
    #: True if it serves HTTP through its own ASGI application.
    asgi: bool = False
    outbound: tuple[str, ...] = ()
    docs_path: str | None = None
    #: True if it was bound with API keys.
    guarded: bool = False

    def change(self, given: dict[str, Any]) -> None:
        """Override options from a file."""
        self.config = configured(self.config, given)
        before, gang = self.actor, self.config.gang_scheduling_config
        self.actor = actor_options(before, given)
        if self.actor != before or "gang_scheduling_config" in given:
            content = self.version + repr((sorted(self.actor.items(), key=str), gang))
            self.version = hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()


@dataclass
class Built:
    """An application in the form sent to the controller."""

    name: str
    route_prefix: str | None
    parts: list[Part]
    config: dict[str, Any] | None = None
    logging: Any = None
    external_scaler: bool = False
    source: str = "imperative"
    #: The import path and directory of the deploying program, because another program's node may start the replicas.
    path: list[str] = field(default_factory=lambda: [os.path.abspath(each) for each in sys.path])
    directory: str = field(default_factory=lambda: _directory())
    #: The autoscaling policy for all deployments together: `policy_function` and `policy_kwargs`.
    policy: Any = None

    @property
    def ingress(self) -> str:
        """The deployment that receives requests."""
        return self.parts[0].name

    def check_ingress(self) -> None:
        """Raise RayServeException if more than one deployment serves an ASGI application."""
        found = [part.name for part in self.parts if part.asgi]
        if len(found) > 1:
            raise RayServeException(
                f'Found multiple FastAPI deployments in application "{self.name}": {", ".join(found)}. Decorate only the one '
                "that receives requests with @serve.ingress"
            )


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


@dataclass
class _Host:
    """The deployments among a deployment's arguments: separate ones, and those inside its own replicas."""

    outbound: list[str] = field(default_factory=list)
    inside: dict[str, Part] = field(default_factory=dict)


class _Walk:
    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self.names: dict[int, str] = {}
        self.taken: dict[str, Any] = {}
        self.parts: list[Part] = []
        self.open: list[str] = []

    def name(self, bound: Deployment) -> str:
        """Return a unique name within the application, because the same class may be bound twice."""
        name, number = bound.name, 1
        while name in self.taken and self.taken[name] is not bound:
            name = f"{bound.name}_{number}"
            number += 1
        self.taken[name] = bound
        return name

    def visit(self, app: Application) -> DeploymentHandle:
        bound = app._bound_deployment
        known = self.names.get(id(app))
        if known is None:
            known = self.names[id(app)] = self.name(bound)
            at = len(self.parts)
            host = _Host()
            arguments = self.arguments(known, bound, host)
            inside = tuple(host.inside.values())
            made = self.part(known, bound, arguments, tuple(host.outbound), inside)
            self.parts.insert(at if self.parts else 0, made)
        return DeploymentHandle(known, self.app_name)

    def visit_inside(self, app: Application, host: _Host) -> DeploymentHandle:
        """Visit a deployment that lives in the replicas of another one. It is packed with that one, after its
        dependencies.
        """
        bound = app._bound_deployment
        known = self.names.get(id(app))
        if known is None:
            known = self.names[id(app)] = self.name(bound)
        if known not in host.inside:
            host.inside[known] = self.part(known, bound, self.arguments(known, bound, host), ())
        return DeploymentHandle(known, self.app_name)

    def replace(self, value: Any, host: _Host) -> Any:
        """Return the value with handles in place of applications."""
        if isinstance(value, Application):
            if value._bound_deployment._config.in_process:
                return self.visit_inside(value, host)
            handle = self.visit(value)
            host.outbound.append(handle.deployment_name)
            return handle
        if isinstance(value, Deployment):
            raise TypeError(
                f"the deployment {value.name!r} is an argument of another one; pass {value.name}.bind(...) instead"
            )
        kind = type(value)
        if kind in (list, tuple, set):
            return kind(self.replace(each, host) for each in value)
        if kind is dict:
            return {self.replace(key, host): self.replace(each, host) for key, each in value.items()}
        return value

    def arguments(self, name: str, bound: Deployment, host: _Host) -> tuple[Any, bytes]:
        """Return the arguments of a deployment with handles in place of applications, and the same arguments
        pickled.

        Applications inside the user's objects are found while those are pickled. Raises TypeError for
        arguments that cannot be pickled.
        """
        value = (self.replace(bound.init_args, host), self.replace(bound.init_kwargs, host))
        what = f"Could not serialize the deployment init args of {name!r}, which are sent to its replicas"
        blob, found = pickler.replaced(
            value, (Application, Deployment), lambda one: self.replace(one, host), what
        )
        return (pickle.loads(blob) if found else value), blob

    def part(
        self,
        name: str,
        bound: Deployment,
        arguments: tuple[Any, bytes],
        outbound: tuple[str, ...],
        inside: tuple[Part, ...] = (),
    ) -> Part:
        """Build the record of a deployment, with pickled code. Raises TypeError if its code cannot be sent."""
        target = bound.func_or_class
        if isinstance(target, str):
            target = load(target)
        code = pickler.packed(
            target, f"Could not serialize the deployment {name!r}, which is sent to its replicas"
        )
        value, args = arguments
        config, actor = bound._config, bound._replica.actor_options
        # The fingerprint includes the application, the deployment and the code, even if the user sets a
        # version: deployments never share code.
        version = repr(
            (self.app_name, name, bound.version, fingerprint.of(target, code), fingerprint.of_modules(target))
        )
        version += fingerprint.of(value, args)
        actors = [each.model_dump() for each in config.deployment_actors]
        shared = fingerprint.of(actors, pickler.dumps(actors)) if actors else ""
        heavy = repr((sorted(actor.items(), key=str), shared))
        if config.gang_scheduling_config is not None:
            heavy += repr(config.gang_scheduling_config)
        if inside:
            heavy += repr([(each.name, each.version, each.config.model_dump()) for each in inside])
        version = hashlib.sha1((version + heavy).encode(), usedforsecurity=False).hexdigest()
        asgi = getattr(target, "__serve_asgi__", None)
        whole = pickler.dumps((code, args, [(each.name, each.code, each.config) for each in inside]))
        docs = getattr(asgi, "docs_url", None) if asgi is not None else None
        return Part(
            name,
            whole,
            version,
            config,
            actor,
            asgi=hasattr(target, "__serve_asgi__"),
            outbound=outbound,
            docs_path=docs,
            guarded=hasattr(value[1].get("api_keys"), "has"),
        )


def checked_prefix(prefix: str | None) -> str | None:
    """Normalize a route prefix. Raises ValueError for an invalid one."""
    if prefix is None:
        return None
    message = f"Invalid route_prefix '{prefix}', "
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        raise ValueError(
            f"{message}must start with a forward slash ('/'). Write '/{str(prefix).lstrip('/')}'"
        )
    if prefix != "/" and prefix.endswith("/"):
        raise ValueError(f"{message}may not end with a trailing '/'. Write {prefix.rstrip('/')!r}")
    if "{" in prefix or "}" in prefix:
        raise ValueError(f"{message}may not contain wildcards. Put them in the routes of the app")
    return prefix


def build(app: Any, name: str, route_prefix: str | None) -> Built:
    """Build the controller's records of an application. Raises TypeError for other objects."""
    if isinstance(app, Deployment):
        raise TypeError(
            "`serve.run` expects an `Application` returned by `Deployment.bind()`. This is the deployment "
            f"{app.name!r}: call serve.run({app.name}.bind(...))"
        )
    if not isinstance(app, Application):
        raise TypeError(
            f"`serve.run` expects an `Application` returned by `Deployment.bind()`. This is a {type(app).__name__}: {app!r:.80}"
        )
    if not isinstance(name, str) or not name:
        raise RayServeException(f"Application name must a non-empty string. Got {name!r}")
    walk = _Walk(name)
    walk.visit(app)
    ingress = walk.names[id(app)]
    walk.parts.sort(key=lambda each: each.name != ingress)
    walk.parts[0].ingress = True
    return Built(name, checked_prefix(route_prefix), walk.parts)
