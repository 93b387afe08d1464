"""The command line of `serve` and `skate serve`: run, build, deploy, status, config, controller-health, shutdown, start."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from skate.command import broken_pipe
from skate.serve.command import deploy_verbs, status_verbs

SUMMARY = "run, deploy and inspect applications: serve run module:app"
USAGE_ERROR = 2
Verb = Callable[[argparse.Namespace], int]


def entry() -> int:
    """Run the console script `serve`."""
    return broken_pipe.run_quietly(lambda: main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit status: 0, 1 for an error, 2 for invalid usage."""
    parsed = _parser().parse_args(list(arguments))
    folder = os.path.abspath(parsed.app_dir)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        status: int = parsed.call(parsed)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # the imported code of an application may raise anything
        if isinstance(error, BrokenPipeError) and broken_pipe.is_unread():
            raise
        return _failed(parsed.verb, error)
    return status


def _failed(verb: str, error: Exception) -> int:
    message = str(error) or type(error).__name__
    if not isinstance(error, (ValueError, TypeError, RuntimeError, ImportError, AttributeError, OSError)):
        message = f"{type(error).__name__}: {message}"
    print(f"serve {verb}: {message}", file=sys.stderr)
    cause = error.__cause__
    if cause is not None and str(cause) not in message:
        print(f"  because of {type(cause).__name__}: {cause}", file=sys.stderr)
    place = _own_line(cause or error)
    if place:
        print(f"  raised in {place}", file=sys.stderr)
    return 1


def _own_line(error: BaseException) -> str:
    """Return the line of the user's code that raised an error; empty if there is none."""
    import traceback  # imported only for errors

    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(ours)
    ]
    own = [each for each in frames if not each.filename.startswith(("<", sys.prefix, sys.base_prefix))]
    return f"{own[-1].filename}, line {own[-1].lineno}, in {own[-1].name}" if own else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="serve", description=SUMMARY)
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, call: Verb, about: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=about, description=about)
        made.add_argument(
            "-d", "--app-dir", default=".", help="a folder to import from; default: the current one"
        )
        made.set_defaults(call=call)
        return made

    _of_run(verb("run", deploy_verbs.run, "serve an application or a config file, until Ctrl-C"))
    building = verb("build", deploy_verbs.build_file, "write a config file for applications")
    building.add_argument("targets", nargs="+", metavar="import_paths")
    building.add_argument(
        "-o", "--output-path", default=None, help="the file to write; default: standard output"
    )
    _grpc(building)
    _of_deploy(
        verb("deploy", deploy_verbs.deploy, "deploy a config file, or an application, on a running node")
    )
    for name, call, about in (
        ("status", status_verbs.status, "print the status of applications"),
        ("config", status_verbs.config, "print the deployed configs"),
    ):
        made = verb(name, call, about)
        _api(made)
        made.add_argument("-n", "--name", default=None, help="only for this application")
    health = verb("controller-health", status_verbs.controller_health, "print metrics of Serve's controller")
    _api(health)
    health.add_argument("--json", action="store_true", help="print JSON, not YAML")
    shutdown = verb("shutdown", status_verbs.shutdown, "end all applications")
    _api(shutdown)
    shutdown.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    _of_start(verb("start", deploy_verbs.start, "start Serve on a running node"))
    return parser


def _of_run(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "target", metavar="config_or_import_path", help="module:app, module:builder or a YAML file"
    )
    run.add_argument("arguments", nargs="*", help="key=value arguments for a builder")
    _environment(run)
    _node(run)
    run.add_argument(
        "--blocking", action="store_true", default=True, help="wait for Ctrl-C, which ends Serve (default)"
    )
    run.add_argument(
        "--non-blocking", dest="blocking", action="store_false", help="return when the application is running"
    )
    run.add_argument("-r", "--reload", action="store_true", help="redeploy when a file of the folder changes")
    run.add_argument("--route-prefix", default="/", help="path prefix of the application; default: /")
    run.add_argument("--name", default="default", help="name of the application")
    run.add_argument(
        "--host", default=None, help="the address to listen on; default: 127.0.0.1, or the config file's"
    )
    run.add_argument("--port", type=int, default=None, help="the port; default: 8000, or the config file's")
    run.add_argument(
        "--rest-port", type=int, default=None, help="also serve the REST API on this port; see `serve start`"
    )


def _of_deploy(deploy: argparse.ArgumentParser) -> None:
    deploy.add_argument(
        "target", metavar="config_or_import_path", help="a YAML file, module:app or module:builder"
    )
    deploy.add_argument("arguments", nargs="*", help="key=value arguments for a builder")
    _environment(deploy)
    deploy.add_argument(
        "--name", default="default", help="name of the application; not for a config file, which has names"
    )
    _api(deploy)


def _of_start(start: argparse.ArgumentParser) -> None:
    _node(start)
    start.add_argument("--http-host", default="127.0.0.1")
    start.add_argument("--http-port", type=int, default=8000)
    start.add_argument("--proxy-location", default="EveryNode", choices=("Disabled", "HeadOnly", "EveryNode"))
    start.add_argument("--grpc-port", type=int, default=9000)
    _grpc(start)
    start.add_argument("--rest-host", default="127.0.0.1")
    start.add_argument(
        "--rest-port",
        type=int,
        default=None,
        help="(Skate's own) serve the REST API on this port; its token is SKATE_SERVE_TOKEN, or is generated and printed",
    )


def _environment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runtime-env", default=None, help="a YAML file with a runtime environment")
    parser.add_argument("--runtime-env-json", default=None, help="a runtime environment as JSON")
    parser.add_argument("--working-dir", default=None, help="a folder, or the address of a .zip, to run in")


def _node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--address", default=None, help="a running node: auto, or its address")


def _api(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-a",
        "--address",
        default=None,
        help="a running node: auto (default), its address, or http://... of its REST API",
    )


def _grpc(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grpc-servicer-functions",
        action="append",
        default=[],
        help="module.add_XServicer_to_server, for gRPC",
    )
    parser.add_argument("--grpc-enable-reflection", dest="reflection", action="store_true", default=True)
    parser.add_argument("--grpc-disable-reflection", dest="reflection", action="store_false")
