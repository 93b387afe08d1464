"""`skate serve ...`: run, build, deploy, status, config, shutdown, start."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import skate
from skate.serve import api, loading
from skate.serve.graph import build
from skate.serve.routing import watch
from skate.serve.schema.deploy import ServeDeploySchema

SUMMARY = "run, deploy and look at applications: serve run module:app"
USAGE_ERROR = 2


def main(arguments: Sequence[str]) -> int:
    """Run one verb; the exit status."""
    parsed = _parser().parse_args(list(arguments))
    if parsed.app_dir:
        sys.path.insert(0, parsed.app_dir)
    try:
        status: int = parsed.call(parsed)
    except (ValueError, TypeError, RuntimeError, ImportError, AttributeError, OSError) as error:
        print(f"serve {parsed.verb}: {error}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="serve", description=SUMMARY)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, call: Any, about: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about, description=about)
        made.add_argument("-a", "--address", default=None, help="a node that runs: auto, or its address")
        made.add_argument("-d", "--app-dir", default=".", help="a folder to import from")
        made.set_defaults(call=call)
        return made

    run = verb("run", _run, "serve an application or a config file, until Ctrl-C")
    run.add_argument("target", help="module:app, module:builder or a YAML file")
    run.add_argument("arguments", nargs="*", help="key=value, for a builder")
    run.add_argument("--blocking", action=argparse.BooleanOptionalAction, default=True)
    run.add_argument(
        "-r", "--reload", action="store_true", help="deploy again when a file of the folder changes"
    )
    run.add_argument("--route-prefix", default="/")
    run.add_argument("--name", default="default")
    run.add_argument("--host", default=None)
    run.add_argument("--port", type=int, default=None)
    run.add_argument(
        "--rest-port", type=int, default=None, help="also serve the REST API; SKATE_SERVE_TOKEN is its token"
    )
    building = verb("build", _build, "write a config file for applications")
    building.add_argument("targets", nargs="+", metavar="module:app")
    building.add_argument("-o", "--output-path", default=None)
    deploy = verb("deploy", _deploy, "have a running node serve a config file")
    deploy.add_argument("config")
    status = verb("status", _status, "how applications are")
    status.add_argument("-n", "--name", default=None)
    config = verb("config", _config, "the config that was deployed")
    config.add_argument("-n", "--name", default=None)
    shutdown = verb("shutdown", _shutdown, "end all applications")
    shutdown.add_argument("-y", "--yes", action="store_true")
    start = verb("start", _start, "start Serve on a running node")
    start.add_argument("--http-host", default="127.0.0.1")
    start.add_argument("--http-port", type=int, default=8000)
    start.add_argument("--proxy-location", default="EveryNode")
    return parser


def _join(address: str | None, needed: bool) -> None:
    if skate.is_initialized():
        return
    if address or needed:
        skate.init(address=address or "auto")
    else:
        skate.init(preload=list(api.PRELOAD))


def _run(parsed: argparse.Namespace) -> int:
    _join(parsed.address, needed=False)
    if parsed.target.endswith((".yaml", ".yml")):
        schema = loading.read(parsed.target)
        if parsed.arguments:
            raise ValueError("arguments are for a builder function; a config file has `args`")
        loading.deploy(schema, api._started(), skate.get)
        _until_settled()
    else:
        args = {}
        for each in parsed.arguments:
            key, equals, value = each.partition("=")
            if not equals:
                raise ValueError(f"arguments of a builder are written key=value, not {each!r}")
            args[key] = value
        app = loading.application(parsed.target, args)
        options = {"host": parsed.host, "port": parsed.port}
        api.run(app, name=parsed.name, route_prefix=parsed.route_prefix, **options)
    print("Serve runs; Ctrl-C ends it" if parsed.blocking else "Serve runs", flush=True)
    if not parsed.blocking:
        return 0
    rest = None
    if parsed.rest_port is not None:
        from skate.serve.rest import RestServer  # only where it is asked for

        rest = RestServer(os.environ.get("SKATE_SERVE_TOKEN", ""), port=parsed.rest_port)
    try:
        if parsed.reload:
            from skate.serve.command.reloading import watch_and_run  # only for development

            watch_and_run(parsed)
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        if rest is not None:
            rest.close()
        api.shutdown()
        return 0


def _until_settled() -> None:
    """Wait until no application is being deployed. Raises RuntimeError if one failed."""
    while True:
        apps = api.status().applications
        failed = {name: app.message for name, app in apps.items() if app.status == "DEPLOY_FAILED"}
        if failed:
            raise RuntimeError(
                "; ".join(f"application {name!r} failed: {said}" for name, said in failed.items())
            )
        if all(app.status == "RUNNING" for app in apps.values()):
            return
        time.sleep(0.02)


def _build(parsed: argparse.Namespace) -> int:
    import yaml  # with the extra `serve`

    apps: list[dict[str, Any]] = []
    for at, target in enumerate(parsed.targets):
        name = f"app{at + 1}"
        app = loading.application(target)
        prefix = "/" if len(parsed.targets) == 1 else f"/{name}"
        made = build(app, name, prefix)
        deployments = []
        for part in made.parts:
            said = part.config.model_dump(exclude_unset=True)
            deployments.append({"name": part.name, **said})
        apps.append({"name": name, "route_prefix": prefix, "import_path": target, "deployments": deployments})
    ServeDeploySchema.model_validate({"applications": apps})
    file = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": 8000},
        "applications": apps,
    }
    text = yaml.safe_dump(file, sort_keys=False)
    if parsed.output_path:
        with open(parsed.output_path, "w") as out:
            out.write(text)
    else:
        print(text, end="")
    return 0


def _deploy(parsed: argparse.Namespace) -> int:
    schema = loading.read(parsed.config)
    _join(parsed.address, needed=True)
    loading.deploy(schema, api._started(), skate.get)
    names = ", ".join(each.name for each in schema.applications)
    print(f"{names or 'nothing'} is being deployed; `serve status` tells how it goes")
    return 0


def _details(address: str | None) -> dict[str, Any]:
    _join(address, needed=True)
    try:
        controller = watch.controller()
    except ValueError:
        return {"applications": {}}
    found: dict[str, Any] = skate.get(controller.details.remote())
    return found


def _status(parsed: argparse.Namespace) -> int:
    import yaml  # as above

    apps = _details(parsed.address)["applications"]
    if parsed.name is not None:
        if parsed.name not in apps:
            raise ValueError(
                f"there is no application {parsed.name!r}; there are: {', '.join(apps) or 'none'}"
            )
        apps = {parsed.name: apps[parsed.name]}
    told = {
        name: {
            "status": app["status"],
            "message": app["message"],
            "deployments": {
                each["name"]: {
                    "status": each["status"],
                    "message": each["message"],
                    "replica_states": _counted(each["replicas"]),
                }
                for each in app["deployments"].values()
            },
        }
        for name, app in apps.items()
    }
    print(yaml.safe_dump({"applications": told}, sort_keys=False), end="")
    return 0


def _counted(replicas: list[dict[str, Any]]) -> dict[str, int]:
    states = [each["state"] for each in replicas]
    return {state: states.count(state) for state in sorted(set(states))}


def _config(parsed: argparse.Namespace) -> int:
    import yaml  # as above

    apps = _details(parsed.address)["applications"]
    known = {name: app["deployed_app_config"] for name, app in apps.items() if app["deployed_app_config"]}
    if parsed.name is not None:
        if parsed.name not in known:
            raise ValueError(f"no config was deployed for an application {parsed.name!r}")
        known = {parsed.name: known[parsed.name]}
    print(yaml.safe_dump_all(list(known.values()), sort_keys=False), end="")
    return 0


def _shutdown(parsed: argparse.Namespace) -> int:
    if (
        not parsed.yes
        and sys.stdin.isatty()
        and input("End all applications? [y/N] ").lower() not in ("y", "yes")
    ):
        return 1
    _join(parsed.address, needed=True)
    api.shutdown()
    print("all applications have ended")
    return 0


def _start(parsed: argparse.Namespace) -> int:
    _join(parsed.address, needed=True)
    api.start(
        proxy_location=parsed.proxy_location,
        http_options={"host": parsed.http_host, "port": parsed.http_port},
    )
    print(f"Serve listens on {parsed.http_host}:{parsed.http_port}")
    return 0
