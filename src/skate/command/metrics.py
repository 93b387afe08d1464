"""``skate metrics``: starts a Prometheus that is installed, for the metrics of the standing node, and ends it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from skate.client.session import detached_node

SUMMARY = "start Prometheus for the metrics of your node: launch-prometheus, shutdown-prometheus, config"
PORT = 9090
END_SECONDS = 10.0


def main(arguments: Sequence[str]) -> int:
    """Start or end Prometheus, or print its configuration, and return 0; 1 if that is not possible."""
    parser = argparse.ArgumentParser(prog="skate metrics", description=SUMMARY)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    launch = verbs.add_parser("launch-prometheus", help="start Prometheus, which has to be installed")
    launch.add_argument(
        "--port", type=int, default=PORT, help="where Prometheus listens; default: %(default)s"
    )
    verbs.add_parser("shutdown-prometheus", help="end the Prometheus that launch-prometheus has started")
    verbs.add_parser("config", help="print a configuration for a Prometheus that runs already")
    for each in verbs.choices.values():
        each.add_argument("--temp-dir", help="folder of the node's socket, as given to `skate start`")
    given = parser.parse_args(list(arguments))
    folder = Path(detached_node.folder_of(given.temp_dir))
    own = folder / "prometheus"
    if given.verb == "shutdown-prometheus":
        return _shut_down(own)
    if not (folder / detached_node.DISCOVERY_NAME).exists():
        print(
            "skate metrics: your node serves no metrics; start it with `skate start --head --metrics-export-port 8080`, or with "
            "`--include-dashboard true`",
            file=sys.stderr,
        )
        return 1
    if given.verb == "config":
        print(_config(folder), end="")
        return 0
    return _launch(folder, own, given.port)


def _config(folder: Path) -> str:
    """Return the configuration. Prometheus reads the token again when it has changed."""
    return f"""\
global:
  scrape_interval: 10s
  evaluation_interval: 10s
scrape_configs:
  - job_name: ray{_tls(folder)}
    authorization:
      credentials_file: {json.dumps(str(folder / detached_node.METRICS_TOKEN_NAME))}
    file_sd_configs:
      - files: [{json.dumps(str(folder / detached_node.DISCOVERY_NAME))}]
"""


def _tls(folder: Path) -> str:
    """Return the line for metrics over HTTPS: the certificate that Prometheus trusts."""
    certificate = (detached_node.recorded(str(folder)) or {}).get("tls_cert")
    return "" if certificate is None else f"\n    tls_config: {{ca_file: {json.dumps(certificate)}}}"


def _launch(folder: Path, own: Path, port: int) -> int:
    program = shutil.which("prometheus")
    if program is None:
        print(
            "skate metrics: there is no program `prometheus` on your PATH; install it, such as by `apt install prometheus`",
            file=sys.stderr,
        )
        return 1
    running = _pid(own)
    if running is not None:
        print(f"skate metrics: Prometheus runs already (pid {running})", file=sys.stderr)
        return 1
    own.mkdir(mode=0o700, exist_ok=True)
    config = own / "prometheus.yml"
    config.write_text(_config(folder))
    with open(own / "prometheus.log", "ab") as log:
        process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={own / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    (own / "pid").write_text(str(process.pid))
    try:
        process.wait(1.0)
    except subprocess.TimeoutExpired:
        print(f"Prometheus (pid {process.pid}) is at http://127.0.0.1:{port}; its files are in {own}.")
        process.returncode = 0  # it outlives this command
        return 0
    print(f"skate metrics: Prometheus has ended: {log_end(own / 'prometheus.log')}", file=sys.stderr)
    return 1


def log_end(path: Path) -> str:
    """Return the last line of a log."""
    lines = path.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it printed nothing"


def _shut_down(own: Path) -> int:
    pid = _pid(own)
    if pid is None:
        print("There is nothing to shut down: `skate metrics launch-prometheus` has started no Prometheus.")
        return 0
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + END_SECONDS
    while _pid(own) is not None:
        if time.monotonic() > deadline:
            print(f"skate metrics: Prometheus (pid {pid}) does not end", file=sys.stderr)
            return 1
        time.sleep(0.02)
    (own / "pid").unlink(missing_ok=True)
    print(f"Prometheus (pid {pid}) has ended.")
    return 0


def _pid(own: Path) -> int | None:
    """Return the pid of the Prometheus with this configuration; None if it has ended."""
    try:
        pid = int((own / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(own / "prometheus.yml") in command and state != "Z" else None
