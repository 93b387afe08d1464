"""Starting and ending applications and Serve itself: `serve.run` and related functions."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import skate
from skate.serve.config.deployment import LoggingConfig
from skate.serve.config.http import ControllerOptions, HTTPOptions, ProxyLocation, gRPCOptions
from skate.serve.context import get_multiplexed_model_id, get_replica_context
from skate.serve.deployment import Application, deployment
from skate.serve.exceptions import NoDeploymentError, RayServeException
from skate.serve.graph import Built, build, checked_prefix
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.identity import (
    CONTROLLER_NAME,
    DEFAULT_APP,
    DEPLOYMENT_ACTOR_VARIABLE,
    NAMESPACE,
    DeploymentID,
    deployment_actor_name,
)
from skate.serve.ingress.views import ingress
from skate.serve.multiplex import multiplexed
from skate.serve.routing import local_deployments, watch
from skate.serve.schema.tracing import TracingConfig
from skate.util.debug import preload

__all__ = [
    "RunTarget",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_actor",
    "get_deployment_actor_context",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "ingress",
    "multiplexed",
    "run",
    "run_many",
    "shutdown",
    "shutdown_async",
    "start",
    "status",
]

#: Imports of the controller and the replicas, loaded once for all of them; the second part loads while the
#: controller starts.
_FOR_CONTROLLER = (
    "skate.client.actor.actor_class",
    "skate.client.object.generators",
    "skate.worker.asyncio_actor",
    "skate.serve.controller.actor",
)
_FOR_REPLICAS = ("skate.serve.replica.preload",)
PRELOAD = (*_FOR_CONTROLLER, *_FOR_REPLICAS)
_SHUTDOWN_SECONDS = 60.0
#: The variable that asks for local testing mode in all calls.
_FORCED_LOCALLY = "RAY_SERVE_FORCE_LOCAL_TESTING_MODE"


@dataclass
class RunTarget:
    """An application for `serve.run_many`."""

    target: Application
    name: str = "default"
    route_prefix: str | None = "/"
    logging_config: LoggingConfig | dict[str, Any] | None = None
    external_scaler_enabled: bool = False


def start(
    proxy_location: ProxyLocation | str | None = None,
    http_options: HTTPOptions | dict[str, Any] | None = None,
    grpc_options: gRPCOptions | dict[str, Any] | None = None,
    logging_config: LoggingConfig | dict[str, Any] | None = None,
    tracing_config: TracingConfig | dict[str, Any] | None = None,
    controller_options: ControllerOptions | dict[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Start Serve before the first `serve.run`, which otherwise starts it; if it runs already, its options stay.

    Raises RuntimeError if the port is taken, TypeError or ValueError for invalid options.
    """
    if kwargs:
        named = {key: value for key, value in kwargs.items() if key in ("host", "port")}
        old = [key for key in kwargs if key in ("http_host", "http_port", "http_middlewares")]
        if old:
            raise ValueError(
                f"{old[0]} is deprecated, please use serve.start(http_options={{{old[0].removeprefix('http_')!r}: ...}}) instead"
            )
        if len(named) != len(kwargs):
            raise TypeError(
                f"serve.start has no argument named {next(key for key in kwargs if key not in named)!r}"
            )
        http_options = {**(_dumped(http_options) or {}), **named}
    options = None if http_options is None else HTTPOptions.model_validate(http_options)
    grpc = None if grpc_options is None else gRPCOptions.model_validate(grpc_options)
    if proxy_location is not None and not isinstance(proxy_location, ProxyLocation):
        proxy_location = ProxyLocation(proxy_location)
    if controller_options is not None:
        ControllerOptions.model_validate(controller_options)
    logging = None if logging_config is None else LoggingConfig.model_validate(logging_config)
    tracing = None if tracing_config is None else TracingConfig.model_validate(tracing_config)
    began = _started(controller_options).begin.remote(options, grpc, proxy_location, logging, tracing)
    try:
        skate.get(began)
    except skate.exceptions.RayTaskError as error:  # our own error: raise it without the wrapper
        raise getattr(error, "cause", None) or error from None


def _dumped(options: HTTPOptions | dict[str, Any] | None) -> dict[str, Any] | None:
    return options.model_dump(exclude_unset=True) if isinstance(options, HTTPOptions) else options


def _started(controller_options: ControllerOptions | dict[str, Any] | None = None) -> Any:
    """Return the controller. Start it, and a session, if there is none."""
    _prepare()
    try:
        found = watch.controller()
    except ValueError:
        from skate.serve.controller.actor import ServeController  # shows the whole state of the machine

        options = (
            {}
            if controller_options is None
            else ControllerOptions.model_validate(controller_options).model_dump()
        )
        extra = {"runtime_env": options["runtime_env"]} if options.get("runtime_env") else {}
        made: Any = skate.remote(ServeController)
        found = made.options(
            name=CONTROLLER_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=10_000,
            **extra,
        ).remote()
        for module in _FOR_REPLICAS:
            preload(module)
    watch.adopt(found)
    return found


def _prepare() -> None:
    """Start a session if there is none, and preload the controller's imports in the background."""
    if not skate.is_initialized():
        skate.init(preload=list(_FOR_CONTROLLER))
    else:
        for module in _FOR_CONTROLLER:
            preload(module)


def run(
    target: Application,
    blocking: bool = False,
    name: str = "default",
    route_prefix: str | None = "/",
    logging_config: LoggingConfig | dict[str, Any] | None = None,
    _local_testing_mode: bool = False,
    external_scaler_enabled: bool = False,
    controller_options: ControllerOptions | dict[str, Any] | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> DeploymentHandle:
    """Serve an application and return a handle to its ingress, once it is ready for requests.

    `host` and `port` (Skate's own) set the listening address, if Serve is not running yet. With `blocking` it
    returns at Ctrl-C.

    Raises RuntimeError, with the cause, if a replica fails to start or the cluster is too small for it;
    TypeError if `target` is not an application; ValueError for an invalid route prefix.
    """
    checked_prefix(route_prefix)
    if _local_testing_mode or os.environ.get(_FORCED_LOCALLY) == "1":
        from skate.serve.local_testing_mode import run_locally  # runs in this process

        return run_locally(target, name, logging_config)
    one = RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled)
    options = None
    if host is not None or port is not None:
        address = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
        options = HTTPOptions.model_validate(address)
    return _run_targets([one], blocking, True, controller_options, options)[0]


def run_many(
    targets: Sequence[RunTarget],
    blocking: bool = False,
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: ControllerOptions | dict[str, Any] | None = None,
) -> list[DeploymentHandle]:
    """Serve several applications at once and return handles to their ingresses, in the same order.

    Args:
        targets: The applications, each with its options; their names must differ.
        blocking: Return only at Ctrl-C; False by default.
        wait_for_applications_running: Wait until all of them are ready for requests; True by default.

    Raises:
        ValueError: `targets` is empty, or a route prefix is invalid.
        RayServeException: two applications have the same name.
        RuntimeError: a replica fails to start, or the cluster is too small.
    """
    if not targets:
        raise ValueError("No applications provided. run_many takes a list of RunTargets")
    for each in targets:
        checked_prefix(each.route_prefix)
    if _local_testing_mode or os.environ.get(_FORCED_LOCALLY) == "1":
        from skate.serve.local_testing_mode import run_locally  # imported only if used

        return [run_locally(each.target, each.name, each.logging_config) for each in targets]
    names = [each.name for each in targets]
    if len(set(names)) < len(names):
        raise RayServeException(f"two applications have the same name: {names}; use unique names")
    return _run_targets(list(targets), blocking, wait_for_applications_running, controller_options, None)


def _run_many(
    targets: Sequence[RunTarget],
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: ControllerOptions | dict[str, Any] | None = None,
) -> list[DeploymentHandle]:
    """Do what `run_many` does, without `blocking`."""
    return run_many(
        targets,
        wait_for_applications_running=wait_for_applications_running,
        _local_testing_mode=_local_testing_mode,
        controller_options=controller_options,
    )


def _run(
    target: Application,
    *,
    _blocking: bool = True,
    name: str = DEFAULT_APP,
    route_prefix: str | None = "/",
    logging_config: LoggingConfig | dict[str, Any] | None = None,
    _local_testing_mode: bool = False,
    external_scaler_enabled: bool = False,
    controller_options: ControllerOptions | dict[str, Any] | None = None,
) -> DeploymentHandle:
    """Serve an application as `run` does; with `_blocking=False`, return before it is ready for requests."""
    one = RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled)
    return _run_many(
        [one],
        wait_for_applications_running=_blocking,
        _local_testing_mode=_local_testing_mode,
        controller_options=controller_options,
    )[0]


def _run_targets(
    targets: list[RunTarget],
    blocking: bool,
    wait: bool,
    controller_options: ControllerOptions | dict[str, Any] | None,
    options: HTTPOptions | None,
) -> list[DeploymentHandle]:
    if skate.is_initialized():
        _prepare()
    built = [build(each.target, each.name, each.route_prefix) for each in targets]
    for app, each in zip(built, targets, strict=True):
        app.check_ingress()
        _with_logging(app, each.logging_config)
        app.external_scaler = each.external_scaler_enabled
    _serve(built, wait, controller_options, options)
    handles = [DeploymentHandle(app.ingress, app.name) for app in built]
    if blocking:
        _block()
    return handles


def _serve(
    built: list[Built],
    wait: bool,
    controller_options: ControllerOptions | dict[str, Any] | None,
    options: HTTPOptions | None,
) -> dict[str, Any]:
    """Deploy applications; return the address that Serve listens on."""
    controller = _started(controller_options)
    began = controller.begin.remote(options, None, None)
    deployed = controller.deploy.remote(built, wait)
    try:
        listening: dict[str, Any] = skate.get(began)
        _warn_of_other_address(options, listening)
        outcomes = skate.get(deployed)
    # Serve's own errors arrive wrapped; raise them unwrapped.
    except Exception as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, Exception) and type(cause) in (RuntimeError, RayServeException):
            raise cause from None
        raise
    for name, wrong, why in outcomes:
        if wrong:
            cause = getattr(why, "error", why)
            raise RuntimeError(f"Deploying application {name} failed: {wrong}") from (
                cause if isinstance(cause, BaseException) else None
            )
    return listening


def _with_logging(app: Built, logging_config: LoggingConfig | dict[str, Any] | None) -> None:
    if logging_config is None:
        return
    for part in app.parts:
        if part.config.logging_config is None:
            part.config = part.config.model_copy(update={"logging_config": logging_config})


def _warn_of_other_address(options: HTTPOptions | None, listening: dict[str, Any]) -> None:
    if options is None or listening["port"] is None:
        return
    if options.port not in (0, listening["port"]) or options.host != listening["host"]:
        warnings.warn(
            f"Serve listens on {listening['host']}:{listening['port']} already; to change to "
            f"{options.host}:{options.port}, call serve.shutdown() first",
            stacklevel=4,
        )


def _block() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        shutdown()


def delete(name: str, _blocking: bool = True) -> None:
    """Delete an application after its requests in progress have ended; no-op if there is no such application.

    Raises RayServeException if Serve is not running.
    """
    try:
        controller = watch.controller()
    except ValueError:
        raise RayServeException(_not_running("no application can be deleted")) from None
    skate.get(controller.delete.remote([name], _blocking))


def _not_running(what: str) -> str:
    return f"Serve is not running, so {what}; start it with serve.run(app) or serve.start()"


def shutdown() -> None:
    """End all applications and Serve itself. No-op if Serve is not running."""
    local = sys.modules.get("skate.serve.local_testing_mode")
    if local is not None:
        local.end_all()
    if not skate.is_initialized():
        return
    try:
        controller = watch.controller()
    except ValueError:
        watch.drop()
        return
    try:
        skate.get(controller.shutdown.remote(), timeout=_SHUTDOWN_SECONDS)
    except Exception:  # anything that has not ended yet ends with its controller
        pass
    watch.drop()
    skate.kill(controller)
    _await_end()


def _await_end() -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            watch.controller()
        except ValueError:
            return
        time.sleep(0.002)


async def shutdown_async() -> None:
    """Same as `shutdown`, without blocking the event loop."""
    await asyncio.get_running_loop().run_in_executor(None, shutdown)


def status() -> Any:
    """Return the status of all applications as a ServeStatus; empty if Serve is not running."""
    from skate.serve.schema.status import ServeStatus  # rarely needed

    if not skate.is_initialized():
        skate.init()
    try:
        controller = watch.controller()
    except ValueError:
        return ServeStatus()
    return skate.get(controller.status.remote())


def get_app_handle(name: str) -> DeploymentHandle:
    """Return a handle to the ingress of an application. Raises RayServeException if there is no such
    application.
    """
    try:
        controller = watch.controller()
    except ValueError:
        raise RayServeException(_not_running("there is no application")) from None
    ingress = skate.get(controller.ingress_of.remote(name))
    if ingress is None:
        known = ", ".join(sorted(status().applications)) or "none"
        raise RayServeException(f"Application '{name}' does not exist; the applications are: {known}")
    return DeploymentHandle(ingress, name)


def get_deployment_handle(
    deployment_name: str,
    app_name: str | None = None,
    _check_exists: bool = True,
    _record_telemetry: bool = True,
) -> DeploymentHandle:
    """Return a handle to a deployment; inside a deployment, `app_name` defaults to its own application.

    Raises NoDeploymentError, which is a KeyError, too, if there is no such deployment.
    """
    if app_name is None:
        from skate.serve.context import current_replica  # known only inside replicas

        here = current_replica()
        if here is None:
            raise RayServeException(
                "Please specify an application name when getting a deployment handle outside of a Serve application"
            )
        app_name = here.app_name
    try:
        controller = watch.controller()
    except ValueError:
        raise RayServeException(_not_running("there is no deployment")) from None
    if local_deployments.find((app_name, deployment_name)) is not None:
        return DeploymentHandle(deployment_name, app_name)
    if _check_exists and watch.current().table.deployments.get((app_name, deployment_name)) is None:
        known = skate.get(controller.status.remote()).applications.get(app_name)
        if known is None or deployment_name not in known.deployments:
            have = (
                "there is no such application"
                if known is None
                else "its deployments are: " + ", ".join(known.deployments)
            )
            raise NoDeploymentError(
                f"the deployment {deployment_name!r} of the application {app_name!r} does not exist; {have}"
            )
    return DeploymentHandle(deployment_name, app_name)


def get_deployment_actor(actor_name: str) -> Any:
    """Return an actor shared by all replicas of this deployment, by its name in `deployment_actors`.

    Raises RayServeException outside of replicas, ValueError if there is no such actor.
    """
    here = get_replica_context()
    known = [each.name for each in here._deployment_config.deployment_actors]
    if actor_name not in known:
        raise ValueError(
            f"the deployment {here.deployment!r} has no actor {actor_name!r}; deployment_actors has: "
            f"{', '.join(known) or 'none'}"
        )
    name = deployment_actor_name(here.app_name, here.deployment, here.code_version or "", actor_name)
    return skate.get_actor(name, namespace=NAMESPACE)


def get_deployment_actor_context() -> Any:
    """Return the deployment that the calling actor belongs to. Raises RayServeException outside of such
    actors.
    """
    encoded = os.environ.get(DEPLOYMENT_ACTOR_VARIABLE)
    if encoded is None:
        raise RayServeException(
            "get_deployment_actor_context() must be called from an actor of deployment_actors"
        )
    from skate.serve.context import DeploymentActorContext  # imported only if used

    fields = json.loads(encoded)
    return DeploymentActorContext(
        DeploymentID(fields["deployment"], fields["app"]), fields["actor"], fields["version"]
    )
