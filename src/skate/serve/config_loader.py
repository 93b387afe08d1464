"""Loads applications from config files and import paths, and deploys them."""

from __future__ import annotations

import inspect
import os
import sys
import typing
from typing import Any

import skate
from skate.serve import api
from skate.serve.code.import_path import load
from skate.serve.config.autoscaling import AutoscalingPolicy
from skate.serve.config.checked import nearest
from skate.serve.config.http import HTTPOptions, gRPCOptions
from skate.serve.config.wrong_field import WrongField
from skate.serve.deployment import Application
from skate.serve.graph import Built, Part, build
from skate.serve.routing import watch
from skate.serve.schema.deploy import ServeApplicationSchema, ServeDeploySchema

#: The limits of a config's depth and of the number of its values, because it is pickled and compared.
_DEPTH_MAX, _VALUES_MAX = 64, 1_000_000


def read(path: str) -> ServeDeploySchema:
    """Read and validate a config file. Raises ValueError with the file, the line and the error."""
    import yaml  # requires the extra `serve`

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise ValueError(f"the config file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"the config file {path} cannot be read: it is not UTF-8 text: {error}") from None
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    # The YAML parser may raise anything for an invalid value, such as the month 13.
    except Exception as error:
        raise ValueError(
            f"{path} has a value that cannot be parsed: {type(error).__name__}: {error}"
        ) from None
    try:
        return checked(config)
    except ValueError as error:
        where = getattr(error, "where", ())
        field = f"{spelt(where)}: " if where else ""
        raise ValueError(f"{path}{_line(text, where)}: {field}{error}") from None


def checked(config: Any) -> ServeDeploySchema:
    """Validate a config as far as possible without starting anything. Raises ValueError if it is invalid."""
    bounded(config)
    try:
        schema = ServeDeploySchema.model_validate(config)
    except (AttributeError, ImportError) as error:  # of the path of an autoscaling policy
        raise ValueError(str(error)) from None
    for name, make in (("http_options", http_options), ("grpc_options", grpc_options)):
        try:
            make(schema)
        except WrongField as error:
            raise error.inside(name) from None
    return schema


def bounded(config: Any) -> None:
    """Raise ValueError for a config that is nested too deep, contains itself, or has too many values."""
    left = _VALUES_MAX
    waiting = [(config, 0)]
    while waiting:
        value, depth = waiting.pop()
        inside = (
            value.values()
            if isinstance(value, dict)
            else value
            if isinstance(value, (list, tuple, set))
            else ()
        )
        left -= len(inside)
        if depth > _DEPTH_MAX:
            raise ValueError(
                f"a config may be nested at most {_DEPTH_MAX} levels; this one is deeper, or contains itself through an alias"
            )
        if left < 0:
            raise ValueError(f"a config may have at most {_VALUES_MAX:,} values, with all aliases expanded")
        waiting += [(each, depth + 1) for each in inside]


def _line(text: str, where: tuple[str | int, ...]) -> str:
    """Return the line of a field, or of the innermost enclosing field that the file has."""
    import yaml  # requires the extra `serve`

    node = yaml.compose(text)
    mark = None if node is None else node.start_mark
    for step in where:
        found = None
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            found = node.value[step]
            mark = found.start_mark
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == step:
                    found, mark = value, key.start_mark
        if found is None:
            break
        node = found
    return "" if mark is None else f", line {mark.line + 1}"


def spelt(where: tuple[str | int, ...]) -> str:
    """Format the path of a field: `applications[0].route_prefix`."""
    path = ""
    for step in where:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


def imported(import_path: str) -> Any:
    """Import an object, also from the current directory."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return load(import_path)


def application(import_path: str, args: dict[str, Any] | None = None) -> Application:
    """Import an application, or a function that builds one from `args`.

    Raises TypeError if the object is neither.
    """
    target = imported(import_path)
    if isinstance(target, Application):
        if args:
            raise ValueError(
                f"Arguments can only be passed to an application builder function, but {import_path} is already an application"
            )
        return target
    if inspect.isfunction(target):
        made = target(_typed(target, args or {}))
        if isinstance(made, Application):
            return made
        raise TypeError(
            f"Application builder functions must return an `Application`, as `Deployment.bind()` does, but {import_path} "
            f"returned a {type(made).__name__}"
        )
    hint = "; call .bind(...) on it" if hasattr(target, "bind") else ""
    raise TypeError(
        "Expected a built Serve application or an application builder function but got: "
        f"{type(target)} at {import_path}{hint}"
    )


def _typed(function: Any, args: dict[str, Any]) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1:
        raise TypeError(
            "Application builder functions should take exactly one parameter, a dictionary containing the passed arguments; "
            f"{function.__name__} takes {len(parameters)}"
        )
    kind: Any = typing.get_type_hints(function).get(parameters[0].name)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(args)
    return args


def built(schema: ServeApplicationSchema) -> Built:
    """Build an application of a file. Options of the file replace those in the code."""
    app = application(schema.import_path, schema.args)
    made = build(app, schema.name, schema.route_prefix)
    made.check_ingress()
    made.config = schema.model_dump(exclude_unset=True)
    made.source = "declarative"
    made.external_scaler = schema.external_scaler_enabled
    if schema.autoscaling_policy is not None:
        made.policy = AutoscalingPolicy.model_validate(schema.autoscaling_policy)
    known = {part.name: part for part in made.parts}
    for changes in schema.deployments:
        part = known.get(changes.name)
        if part is None:
            raise ValueError(
                f"the application {schema.name!r} has no deployment {changes.name!r}{nearest(changes.name, known)} The "
                f"deployments are: {', '.join(known)}"
            )
        part.change(changes.given())
    for part in made.parts:
        if schema.logging_config is not None and part.config.logging_config is None:
            part.change({"logging_config": schema.logging_config})
        if schema.runtime_env:
            part.change({"ray_actor_options": _with_environment(part, schema.runtime_env)})
    return made


def _with_environment(part: Part, given: dict[str, Any]) -> dict[str, Any]:
    """Return a deployment's actor options, with the application's runtime environment merged under its own."""
    options: dict[str, Any] = part.actor["ray_actor_options"]
    own = options.get("runtime_env") or {}
    variables = {**(given.get("env_vars") or {}), **(own.get("env_vars") or {})}
    merged = {**given, **own, **({"env_vars": variables} if variables else {})}
    return {**options, "runtime_env": merged}


def deploy(schema: ServeDeploySchema, apart: bool = False, all_or_none: bool = True) -> dict[str, Any]:
    """Deploy the applications of a file, delete those of earlier files, and return the listening address.

    With `apart`, or for an application with a runtime environment, a separate process imports the code, so that
    earlier imports in this process have no effect. An application whose code cannot be imported has the status
    DEPLOY_FAILED; an earlier version of it is still served. With `all_or_none`, nothing else changes then.

    Raises:
        Exception: with `all_or_none`, of code that cannot be imported.
        RuntimeError: a port is in use.
    """
    grpc = grpc_options(schema)
    controller = api._started(schema.controller_options)
    apps: list[Built] = []
    broken: dict[str, tuple[Any, str]] = {}
    for each in schema.applications:
        try:
            apps.append(built_in_subprocess(each) if apart or each.runtime_env else built(each))
        except Exception as error:  # the code of an application may raise anything
            broken[each.name] = (each.model_dump(exclude_unset=True), _build_error(each.name, error))
            if all_or_none:
                skate.get(controller.record_build_errors.remote(broken))
                raise
    try:
        listening = skate.get(
            controller.begin.remote(
                http_options(schema),
                grpc,
                schema.proxy_location,
                schema.logging_config,
                schema.tracing_config,
            )
        )
        skate.get(controller.replace_all.remote(apps, schema.target_capacity, broken))
    except skate.exceptions.RayTaskError as error:
        raise cause_of(error) from None
    watch.adopt(controller)
    address: dict[str, Any] = listening
    return address


def _build_error(name: str, error: Exception) -> str:
    import traceback  # imported only for errors

    cause = error.__cause__ or error
    text = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
    return f"Deploying app {name!r} failed with exception:\n{text}"


def http_options(schema: ServeDeploySchema) -> HTTPOptions:
    """Return the HTTP options of a file."""
    options = schema.http_options.model_dump()
    if options["max_request_body_bytes"] is None:
        del options["max_request_body_bytes"]
    return HTTPOptions(**options)


def grpc_options(schema: ServeDeploySchema) -> gRPCOptions | None:
    """Return the gRPC options of a file; None if it names no services."""
    if not schema.grpc_options.grpc_servicer_functions:
        return None
    return gRPCOptions(**schema.grpc_options.model_dump())


def built_in_subprocess(schema: ServeApplicationSchema) -> Built:
    """Build as `built` does, in a separate process. Raises RuntimeError with the code's exception as its cause."""
    make: Any = skate.remote(max_calls=1)(built)
    options: dict[str, Any] = {"num_cpus": 0, "max_retries": 0, "name": f"build {schema.import_path}"}
    if schema.runtime_env:
        options["runtime_env"] = schema.runtime_env
    try:
        made: Built = skate.get(make.options(**options).remote(schema))
    except Exception as error:  # the code and the creation of its environment may raise anything
        cause = cause_of(error)
        raise RuntimeError(f"{schema.import_path}: {type(cause).__name__}: {cause}") from cause
    return made


def cause_of(error: BaseException) -> BaseException:
    """Return the exception that another process raised, unwrapped."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error
