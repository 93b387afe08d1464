"""From a config file, or an import path, to applications that can be deployed."""

from __future__ import annotations

import inspect
import os
import sys
import typing
from typing import Any

from skate.serve.config.checked import nearest
from skate.serve.config.http import HTTPOptions, gRPCOptions
from skate.serve.deployment import Application
from skate.serve.graph import Built, build
from skate.serve.importing import load
from skate.serve.routing import watch
from skate.serve.schema.deploy import ServeApplicationSchema, ServeDeploySchema


def read(path: str) -> ServeDeploySchema:
    """A config file, checked. Raises ValueError that names the file and what is wrong in it."""
    import yaml  # with the extra `serve`

    with open(path) as file:
        try:
            said = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is no YAML: {error}") from None
    try:
        return ServeDeploySchema.model_validate(said)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def application(import_path: str, args: dict[str, Any] | None = None) -> Application:
    """The application that an import path names; a function there is called with `args` to build it.

    Raises TypeError if it is neither.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found = load(import_path)
    if isinstance(found, Application):
        if args:
            raise ValueError(
                f"args were given for {import_path}, which is an application already and takes none"
            )
        return found
    if inspect.isfunction(found):
        made = found(_typed(found, args or {}))
        if isinstance(made, Application):
            return made
        raise TypeError(
            f"the function {import_path} builds an application, but returned a {type(made).__name__}"
        )
    hint = "; call .bind(...) on it" if hasattr(found, "bind") else ""
    raise TypeError(
        f"{import_path} is a {type(found).__name__}, neither an application nor a function that builds one{hint}"
    )


def _typed(function: Any, args: dict[str, Any]) -> Any:
    parameters = list(inspect.signature(function).parameters.values())
    if len(parameters) != 1:
        raise TypeError(
            f"a function that builds an application takes one argument, a dict; {function.__name__} takes "
            f"{len(parameters)}"
        )
    kind: Any = typing.get_type_hints(function).get(parameters[0].name)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(args)
    return args


def built(schema: ServeApplicationSchema) -> Built:
    """An application of a file, with its options in the places of those in the code."""
    app = application(schema.import_path, schema.args)
    made = build(app, schema.name, schema.route_prefix)
    made.config = schema.model_dump(exclude_unset=True)
    made.source = "declarative"
    known = {part.name: part for part in made.parts}
    for said in schema.deployments:
        part = known.get(said.name)
        if part is None:
            raise ValueError(
                f"the application {schema.name!r} has no deployment {said.name!r}{nearest(said.name, known)} It has: "
                f"{', '.join(known)}"
            )
        part.change(said.given())
    for part in made.parts:
        if schema.logging_config is not None and part.config.logging_config is None:
            part.change({"logging_config": schema.logging_config})
    return made


def deploy(schema: ServeDeploySchema, controller: Any, get: Any) -> None:
    """Have a file's applications served, and no others of earlier files."""
    http = HTTPOptions(**schema.http_options.model_dump())
    grpc = (
        gRPCOptions(**schema.grpc_options.model_dump())
        if schema.grpc_options.grpc_servicer_functions
        else None
    )
    apps = [built(each) for each in schema.applications]
    get(controller.begin.remote(http, grpc, schema.proxy_location))
    get(controller.replace_all.remote(apps, schema.target_capacity))
    watch.adopt(controller)
