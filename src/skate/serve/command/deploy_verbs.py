"""`serve run`, `serve deploy`, `serve build` and `serve start`."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import time
from typing import Any

import skate
from skate.command.session import given_address
from skate.serve import api, config_loader
from skate.serve.command import file_watcher
from skate.serve.command import target as site
from skate.serve.graph import build
from skate.serve.schema.deploy import ServeDeploySchema

_FILES = (".yaml", ".yml")


def run(parsed: argparse.Namespace) -> int:
    """Serve an application, and wait for Ctrl-C."""
    joins = given_address(parsed.address)
    if not (parsed.blocking or joins or skate.is_initialized()):
        raise ValueError(
            "--non-blocking requires a node that continues to run after this command; start one with `skate start "
            "--head` and pass --address auto"
        )
    if parsed.reload:
        # Python would reuse the compiled file if a file changes twice within a second.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    schema = wanted(parsed, parsed.target.endswith(_FILES))
    if not (parsed.target.endswith(_FILES) or parsed.reload or schema.applications[0].runtime_env):
        config_loader.imported(parsed.target)  # the program may start or join a session itself
    if not skate.is_initialized():
        skate.init(address=joins) if joins else skate.init(preload=list(api.PRELOAD))
    elif joins not in (None, "auto", skate.get_runtime_context().gcs_address):
        print(
            "serve run: An address was passed to `serve run` but the imported module also connected to Ray at a different "
            f"address: {skate.get_runtime_context().gcs_address!r}. The command needs no `ray.init` in the program",
            file=sys.stderr,
        )
    rest = None
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        served(parsed, schema)
        if not parsed.blocking:
            return 0
        if parsed.rest_port is not None:
            from skate.serve.rest import RestServer  # imported only if requested

            rest = RestServer(_token(), port=parsed.rest_port)
        if parsed.reload:
            file_watcher.watch(
                _folder(parsed), lambda: served(parsed, wanted(parsed, parsed.target.endswith(_FILES)))
            )
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        api.shutdown()
        return 0
    finally:
        if rest is not None:
            rest.close()
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: Any) -> None:
    """End Serve. A second Ctrl-C does not stop that halfway, or a standing node would keep the rest."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _folder(parsed: argparse.Namespace) -> str:
    local: str | None = parsed.working_dir
    folder: str = local if local and os.path.isdir(local) else parsed.app_dir
    return os.path.abspath(folder)


def wanted(parsed: argparse.Namespace, is_file: bool) -> ServeDeploySchema:
    """Return the config to serve: a config file, or one built from the command line."""
    environment = _environment(parsed)
    if is_file:
        if parsed.arguments:
            raise ValueError(
                "arguments are only for application builder functions; in a config file use `args`"
            )
        schema = config_loader.read(parsed.target)
        if environment and parsed.verb == "run":
            for each in schema.applications:
                each.runtime_env = _with_defaults(each.runtime_env, environment)
        elif environment:
            print(
                "serve deploy: the runtime environment of the command line is ignored, because a config file has its own",
                file=sys.stderr,
            )
        return schema
    args = {}
    for each in parsed.arguments:
        key, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"arguments of a builder must have the form key=value, got {each!r}")
        args[key] = value
    app: dict[str, Any] = {"name": parsed.name, "import_path": parsed.target, "args": args}
    if getattr(parsed, "route_prefix", None) is not None:
        app["route_prefix"] = parsed.route_prefix
    if environment:
        app["runtime_env"] = environment
    host, port = getattr(parsed, "host", None), getattr(parsed, "port", None)
    address = {"host": host or "127.0.0.1", "port": 8000 if port is None else port}
    return ServeDeploySchema.model_validate({"http_options": address, "applications": [app]})


def _with_defaults(own: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return a runtime environment with the fields and variables that it lacks."""
    merged = {**defaults, **own}
    if "env_vars" in defaults:
        merged["env_vars"] = {**defaults["env_vars"], **own.get("env_vars", {})}
    return merged


def served(parsed: argparse.Namespace, schema: ServeDeploySchema) -> None:
    """Serve a config and wait until its applications run. Raises RuntimeError if one fails."""
    if parsed.target.endswith(_FILES):
        for name in ("host", "port"):
            if getattr(parsed, name) is not None:
                setattr(schema.http_options, name, getattr(parsed, name))
        listening = config_loader.deploy(schema, apart=parsed.reload)
        until_settled([each.name for each in schema.applications])
    else:
        app = schema.applications[0]
        made = (
            config_loader.built_in_subprocess(app)
            if parsed.reload or app.runtime_env
            else config_loader.built(app)
        )
        made.source, made.config = "imperative", None
        given = parsed.host is not None or parsed.port is not None
        http = config_loader.http_options(schema) if given else None
        listening = api._serve([made], True, None, http)
    host, port = listening["host"], listening["port"]
    where = f" at http://{host}:{port}/" if port is not None else ""
    print(f"Serve runs{where}" + ("; Ctrl-C ends it" if parsed.blocking else ""), flush=True)


def until_settled(names: list[str]) -> None:
    """Wait until all of these applications run. Raises RuntimeError if one fails."""
    while True:
        apps = api.status().applications
        states = {name: apps[name].status for name in names if name in apps}
        failed = {name: apps[name].message for name, state in states.items() if state == "DEPLOY_FAILED"}
        if failed:
            raise RuntimeError(
                "; ".join(f"application {name!r} failed: {message}" for name, message in failed.items())
            )
        if len(states) == len(names) and all(state == "RUNNING" for state in states.values()):
            return
        time.sleep(0.02)


def deploy(parsed: argparse.Namespace) -> int:
    """Deploy a config on a running node, without waiting for its applications."""
    schema = wanted(parsed, parsed.target.endswith(_FILES))
    site.of(parsed.address).deploy(schema)
    names = ", ".join(each.name for each in schema.applications)
    print(
        f"Sent deploy request successfully. Deploying {names or 'no applications'}; `serve status` shows the progress"
    )
    return 0


def build_file(parsed: argparse.Namespace) -> int:
    """Write a config file for applications, with their options in the code."""
    import yaml  # requires the extra `serve`

    apps: list[dict[str, Any]] = []
    for at, target in enumerate(parsed.targets):
        name = f"app{at + 1}"
        prefix = "/" if len(parsed.targets) == 1 else f"/{name}"
        made = build(config_loader.application(target), name, prefix)
        deployments = [_deployment(part) for part in made.parts]
        apps.append({"name": name, "route_prefix": prefix, "import_path": target, "deployments": deployments})
    ServeDeploySchema.model_validate({"applications": apps})
    file = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": 8000},
        "grpc_options": {
            "port": 9000,
            "grpc_servicer_functions": parsed.grpc_servicer_functions,
            "enable_reflection": parsed.reflection,
        },
        "logging_config": {
            "encoding": "TEXT",
            "log_level": "INFO",
            "logs_dir": None,
            "enable_access_log": True,
        },
        "applications": apps,
    }
    text = "# Written by `serve build`; pass it to `serve run` or `serve deploy`.\n\n"
    text += yaml.safe_dump(file, sort_keys=False)
    if parsed.output_path:
        with open(parsed.output_path, "w") as out:
            out.write(text)
    else:
        print(text, end="")
    return 0


def _deployment(part: Any) -> dict[str, Any]:
    options = {"name": part.name, **part.config.model_dump(exclude_unset=True)}
    for name, value in part.actor.items():
        if value not in (None, {}) and not (name == "ray_actor_options" and value == {"num_cpus": 1}):
            options[name] = value
    return options


def start(parsed: argparse.Namespace) -> int:
    """Start Serve on a node, without applications."""
    site.Joined(parsed.address)
    grpc = None
    if parsed.grpc_servicer_functions:
        grpc = {
            "port": parsed.grpc_port,
            "grpc_servicer_functions": parsed.grpc_servicer_functions,
            "enable_reflection": parsed.reflection,
        }
    address = {"host": parsed.http_host, "port": parsed.http_port}
    api.start(proxy_location=parsed.proxy_location, http_options=address, grpc_options=grpc)
    if parsed.proxy_location != "Disabled":
        print(f"Serve listens on {parsed.http_host}:{parsed.http_port}")
    if parsed.rest_port is not None:
        from skate.serve.rest import have_a_node_answer  # imported only if requested

        token = _token()
        port = have_a_node_answer(token, parsed.rest_host, parsed.rest_port)
        print(f"The REST API is at http://{parsed.rest_host}:{port}/api/serve/applications/")
        if not _environment_token():
            print(f"Its generated token: SKATE_SERVE_TOKEN={token}")
    return 0


def _environment_token() -> str:
    return os.environ.get("SKATE_SERVE_TOKEN") or os.environ.get("RAY_AUTH_TOKEN") or ""


def _token() -> str:
    return _environment_token() or secrets.token_urlsafe(24)


def _environment(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the runtime environment from the command line. Raises ValueError if it is unreadable or invalid."""
    found: Any = {}
    if parsed.runtime_env and parsed.runtime_env_json:
        raise ValueError("--runtime-env and --runtime-env-json were both given; pass only one")
    if parsed.runtime_env:
        import yaml  # requires the extra `serve`

        try:
            with open(parsed.runtime_env) as file:
                found = yaml.safe_load(file)
        except (OSError, yaml.YAMLError) as error:
            raise ValueError(f"cannot read --runtime-env {parsed.runtime_env}: {error}") from None
    elif parsed.runtime_env_json:
        try:
            found = json.loads(parsed.runtime_env_json)
        except ValueError as error:
            raise ValueError(f"--runtime-env-json is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"a runtime environment must be a mapping, got {found!r:.80}")
    if parsed.working_dir:
        found["working_dir"] = parsed.working_dir
    return found
