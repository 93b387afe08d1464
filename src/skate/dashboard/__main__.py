"""The process of the server: joins a session, listens, and ends with either the session or its parent."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

import skate
from skate.command.session import add_options, address_of
from skate.dashboard.access import READ, SUBMIT, Access, hosts_of, tokens_from_environment
from skate.dashboard.app import ByPort, guarded
from skate.dashboard.kept import guarded as guarded_kept
from skate.dashboard.own_api import READS
from skate.dashboard.recorder import ROOM_BYTES, FileRecorder
from skate.dashboard.session_file import SessionFile
from skate.installed import is_installed, require
from skate.job_submission.manager import of_session
from skate.util.http.token_client import LOOPBACK

PORT = 8265
#: How often the process looks whether its session still runs.
LOOK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the session ends; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["open"]:
        return open_kept(words[1:])
    given = parser().parse_args(words)
    if given.host not in LOOPBACK and not (given.tls_cert or given.plain_http_behind_a_proxy):
        print(
            f"--host {given.host}: other machines would reach the server, and read the token on its way; keep 127.0.0.1, or "
            "add --tls-cert and --tls-key, or --plain-http-behind-a-proxy if a proxy encrypts the connections",
            file=sys.stderr,
        )
        return 2
    require("uvicorn", "the dashboard")
    try:
        skate.init(address_of(given) or "auto", log_to_driver=False, _looks=True)
        listeners = _listeners(given)
        tokens = tokens_from_environment()
        recorder = FileRecorder(given.record, READS, given.record_mib << 20) if given.record else None
        if given.jobs:
            of_session()
    except (ConnectionError, OSError, OverflowError, ValueError) as error:
        print(f"skate dashboard: {error}", file=sys.stderr)
        return 1
    from skate.util.http.bounded_server import QuietServer, configured  # needs uvicorn, which may be missing

    ports = {name: each.getsockname()[1] for name, each in listeners.items()}
    app = application(given, ports, tokens)
    try:
        settings = configured(
            app, _websockets(), access_log=False, server_header=False, ssl_certfile=given.tls_cert, ssl_keyfile=given.tls_key
        )  # fmt: skip
        settings.load()
    except OSError as error:  # ssl.SSLError is one
        print(
            f"skate dashboard: --tls-cert {given.tls_cert}, --tls-key {given.tls_key}: {error}",
            file=sys.stderr,
        )
        return 1
    server = QuietServer(settings)
    scheme = "https" if given.tls_cert else "http"
    host = f"[{given.host}]" if ":" in given.host else given.host
    facts: dict[str, object] = {
        **{name: f"{scheme}://{host}:{port}" for name, port in ports.items()},
        "token": tokens[SUBMIT],
        "read_token": tokens[READ],
        "pid": os.getpid(),
        **({"tls_cert": os.path.abspath(given.tls_cert)} if given.tls_cert else {}),
    }
    print(json.dumps(facts) if given.json else described(facts), flush=True)
    threading.Thread(target=_watch, args=(server, given.json), daemon=True).start()
    server.run(sockets=list(listeners.values()))
    if recorder is not None:
        recorder.close()
    for listener in listeners.values():
        listener.close()
    skate.shutdown()
    return 0


def application(given: argparse.Namespace, ports: dict[str, int], tokens: dict[str, str]) -> Any:
    """Return the application: everything at the port "url", nothing but metrics at the port "metrics_url"."""
    access = {
        name: Access(hosts_of(given.host, port, given.allowed_host), tokens, given.allowed_host)
        for name, port in ports.items()
    }
    if "metrics_url" not in ports:
        return guarded(access["url"], given.jobs, audit=_audit)
    metrics = guarded(access["metrics_url"], only_metrics=True)
    if "url" not in ports:
        return metrics
    return ByPort({ports["metrics_url"]: metrics}, guarded(access["url"], given.jobs, audit=_audit))


def _audit(line: str) -> None:
    """Write a line about a change where a standing node finds it for its log."""
    print(line, file=sys.stderr, flush=True)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="skate dashboard", description="serve state and metrics of a session over HTTP"
    )
    add_options(made)
    made.add_argument("--host", default="127.0.0.1", help="where to listen")
    made.add_argument("--port", type=int, help=f"by default {PORT}, or a free one if that is taken")
    made.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        help="another name of the server, such as that of a proxy, with its port unless that is the usual one",
    )
    made.add_argument(
        "--jobs",
        action="store_true",
        help="accept programs to run, from clients with the token for everything",
    )
    made.add_argument(
        "--metrics-export-port",
        type=int,
        metavar="PORT",
        help="serve the metrics at a port of their own, too; 0: a free one",
    )
    made.add_argument("--metrics-only", action="store_true", help="serve nothing else, and at that port only")
    made.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    made.add_argument("--tls-key", metavar="FILE", help="its key, if that is in a file of its own")
    made.add_argument("--plain-http-behind-a-proxy", action="store_true", help=argparse.SUPPRESS)
    made.add_argument(
        "--record",
        metavar="FILE",
        help="keep what the page shows in a new file, for `skate dashboard open FILE`",
    )
    made.add_argument(
        "--record-mib",
        type=int,
        default=ROOM_BYTES >> 20,
        metavar="N",
        help="the most MiB of that file (default: %(default)s)",
    )
    made.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    return made


def open_kept(arguments: Sequence[str]) -> int:
    """Serve a kept session until Ctrl-C; return the exit status."""
    made = argparse.ArgumentParser(
        prog="skate dashboard open", description="show a kept session in the page, without a node"
    )
    made.add_argument(
        "file", metavar="FILE", help="what `skate dashboard --record` or the button Save has kept"
    )
    made.add_argument("--port", type=int, help=f"by default {PORT}, or a free one if that is taken")
    given = made.parse_args(arguments)
    require("uvicorn", "the dashboard")
    from skate.util.http.bounded_server import QuietServer, configured  # needs uvicorn, which may be missing

    try:
        kept = SessionFile(given.file)
        listener = _listen("127.0.0.1", given.port)
        tokens = tokens_from_environment()
    except (OSError, ValueError, OverflowError) as error:
        print(f"skate dashboard open: {error}", file=sys.stderr)
        return 1
    port = listener.getsockname()[1]
    app = guarded_kept(kept, Access(hosts_of("127.0.0.1", port), tokens))
    print(f"The session of {given.file} is at http://127.0.0.1:{port}/#token={tokens[READ]}", flush=True)
    QuietServer(configured(app, access_log=False, server_header=False)).run(sockets=[listener])
    listener.close()
    kept.close()
    return 0


def described(facts: dict[str, object]) -> str:
    """Return what to print for a person."""
    curl = f"curl -H 'Authorization: Bearer {facts['read_token']}'"
    metrics = facts.get("metrics_url", facts.get("url"))
    lines = [f"  Prometheus:   {metrics}/metrics, with the token in the header: {curl} {metrics}/metrics"]
    if "url" in facts:
        lines = [
            f"The session is at {facts['url']}/#token={facts['token']}",
            f"  read it:      {curl} {facts['url']}/api/v0/tasks",
            f"  Prometheus:   {metrics}/metrics, with the same header",
        ]
    return "\n".join(lines)


def _listeners(given: argparse.Namespace) -> dict[str, socket.socket]:
    """Return the listening sockets, by the names of their URLs."""
    if given.metrics_only and given.metrics_export_port is None:
        raise ValueError("--metrics-only needs --metrics-export-port, the port where the metrics are")
    if given.metrics_only and given.jobs:
        raise ValueError("--metrics-only serves no jobs; leave one of the two out")
    found = {}
    if not given.metrics_only:
        found["url"] = _listen(given.host, given.port)
    if given.metrics_export_port is not None:
        found["metrics_url"] = _listen(given.host, given.metrics_export_port)
    return found


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket. Without a port, take the usual one, or a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in (PORT, 0) if port is None else (port,):
        try:
            return socket.create_server((host, number), family=family, backlog=128)
        except OSError as error:
            if port is not None or not number:
                raise OSError(f"cannot listen on {host} port {number}: {error.strerror}") from None
    raise AssertionError("port 0 is always free, or an error")


def _websockets() -> Any:
    """Return what uvicorn is to use for WebSockets, over which the output of a job is followed."""
    if not is_installed("websockets"):
        return "none"
    # The package that uvicorn takes by default is gone from newer versions of websockets.
    return (
        "websockets-sansio" if is_installed("uvicorn.protocols.websockets.websockets_sansio_impl") else "auto"
    )


def _watch(server: object, has_parent: bool) -> None:
    """End the server with its session, or when the parent closes the standard input."""
    if has_parent:
        threading.Thread(target=_read_to_the_end, args=(server,), daemon=True).start()
    pause = threading.Event()
    while not pause.wait(LOOK_SECONDS):
        try:
            skate.cluster_resources()
        except (ConnectionError, RuntimeError, skate.exceptions.RaySystemError):
            break
    server.should_exit = True  # type: ignore[attr-defined]


def _read_to_the_end(server: object) -> None:
    while sys.stdin.buffer.read(1 << 10):
        pass
    server.should_exit = True  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(main())
