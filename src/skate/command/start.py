"""``skate start``: starts a standing node, which drivers can join and leave."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from skate.client.session import detached_node
from skate.launcher.cluster_config import read

SUMMARY = 'start a standing node, for programs that call init(address="auto")'

#: Flags of `ray start` without a meaning here, and True for those with a value.
WITHOUT_EFFECT = {
    "node-manager-port": True, "object-manager-port": True, "min-worker-port": True,
    "max-worker-port": True, "worker-port-list": True, "dashboard-agent-listen-port": True, "dashboard-agent-grpc-port": True,
    "runtime-env-agent-port": True, "dashboard-grpc-port": True, "disable-usage-stats": False,
    "plasma-directory": True, "redis-password": True, "redis-username": True,
    "redis-shard-ports": True, "log-style": True, "log-color": True, "no-monitor": False,
    "storage": True, "ray-debugger-external": False, "no-redirect-output": False,
    "system-config": True, "enable-object-reconstruction": False, "enable-resource-isolation": False, "cgroup-path": True,
    "system-reserved-cpu": True, "system-reserved-memory": True, "worker-ports": True, "ray-object-transfer-port": True,
    "include-log-monitor": True, "proxy-server-url": True,
}  # fmt: skip


HOOK_HELP = "a function that sets up OpenTelemetry, called in each program that joins and in its workers"
#: The exit code of a node that runs with --block and has lost its cluster; whoever supervises it may start it again.
LOST = 3


def main(arguments: Sequence[str]) -> int:
    """Start a node and return 0; 1 if one is already running or it cannot be started."""
    given = _parser().parse_args(list(arguments))
    _warn_of_ignored_flags(given)
    begun = time.monotonic()

    def ready(found: detached_node.Address) -> None:
        print(_how_to_go_on(found, given, time.monotonic() - begun), flush=True)

    try:
        dashboard = _dashboard(given)
        network = _network(given)
        if network is None and not given.head:
            print(
                "skate start: use `skate start --head` to start a cluster with this node, or `skate start --address=HOST:PORT` "
                "to join the one at that address",
                file=sys.stderr,
            )
            return 2
        return _start(given, network, dashboard, ready)
    except detached_node.AlreadyRunning as living:
        print(
            f'skate start: your node is already running, at skate://{living}; join it with init(address="auto"), end it with '
            "`skate stop`, or start another one with --temp-dir",
            file=sys.stderr,
        )
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"skate start: {error}", file=sys.stderr)
    return 1


def _start(
    given: argparse.Namespace,
    network: detached_node.Network | None,
    dashboard: detached_node.DashboardPlace | None,
    ready: Callable[[detached_node.Address], None],
) -> int:
    folder = detached_node.folder_of(given.temp_dir)
    settings = _settings(given)
    if network is not None:
        settings["_node_ip_address"] = network.ip
    if given.block:
        if given.standby:
            print(
                "It stands by while another head has the state, and takes over when that has ended.",
                flush=True,
            )
        print("The node runs until Ctrl-C.", flush=True)
        lost = detached_node.serve(
            folder, settings, ready, network, _beside(given, dashboard, report=_report)
        )
        if lost:
            print(f"skate start: the node has ended: {lost}", file=sys.stderr)
        return LOST if lost else 0
    found, swept = detached_node.start(folder, settings, network, _beside(given, dashboard))
    for path in swept:
        print(f"Removed {path}, left behind by a dead node.")
    ready(found)
    if dashboard is not None:
        _report(detached_node.wait_for_dashboard(found))
    return 0


def _beside(
    given: argparse.Namespace, dashboard: detached_node.DashboardPlace | None, **report: Any
) -> list[Any]:
    """Return what makes the programs that run beside the node."""
    made: list[Any] = []
    if dashboard is not None:
        made.append(partial(detached_node.Dashboard, dashboard, **report))
    if given.head and (path := _autoscaling_file(given)) is not None:
        made.append(partial(detached_node.AutoscalerProcess, path))
    return made


def _report(facts: dict[str, Any]) -> None:
    """Print where the dashboard is, or why there is none; the node runs in any case."""
    if "error" in facts:
        print(f"skate start: the dashboard has not started: {facts['error']}", file=sys.stderr)
        return
    if "url" in facts:
        print(f"  dashboard:    {facts['url']}/#token={facts['token']}", flush=True)
    if "metrics_url" in facts:
        print(
            f"  metrics:      {facts['metrics_url']}/metrics, for Prometheus: `skate metrics config`",
            flush=True,
        )


def _dashboard(given: argparse.Namespace) -> detached_node.DashboardPlace | None:
    """Return where the dashboard listens, or None if there is to be none. Raises ValueError."""
    if not given.include_dashboard:
        if given.jobs:
            raise ValueError(
                "--jobs needs --include-dashboard true; `skate job submit` on this machine needs neither"
            )
        if given.metrics_export_port is None:
            return None
    from skate.util.http.token_client import LOOPBACK  # few nodes have a dashboard

    if given.dashboard_host not in LOOPBACK and not (
        given.dashboard_tls_cert or given.plain_http_behind_a_proxy
    ):
        raise ValueError(
            f"--dashboard-host {given.dashboard_host}: other machines would reach the dashboard, and read the token on its way; "
            "keep 127.0.0.1, or add --dashboard-tls-cert and --dashboard-tls-key, or --plain-http-behind-a-proxy if a proxy "
            "encrypts the connections"
        )
    return detached_node.DashboardPlace(
        given.dashboard_host, given.dashboard_port, given.plain_http_behind_a_proxy, given.jobs, given.metrics_export_port,
        not given.include_dashboard, given.dashboard_tls_cert, given.dashboard_tls_key, tuple(given.dashboard_allowed_host),
    )  # fmt: skip


def _truth(text: str) -> bool:
    """Parse the value of --include-dashboard as Ray does."""
    if text.lower() not in ("1", "0", "true", "false", "t", "f", "yes", "no", "y", "n", "on", "off"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("1", "true", "t", "yes", "y", "on")


def _network(given: argparse.Namespace) -> detached_node.Network | None:
    """Return the network of a node that listens or joins; None for a node of this machine alone. Raises ValueError."""
    if given.head and given.address:
        raise ValueError("--head starts a cluster and --address joins one; use one of them")
    ip, token_file = given.node_ip_address, given.token_file
    port = given.ray_client_server_port if given.port is None else given.port
    state = given.state_dir or given.state_store
    if state and not (given.head and port):
        raise ValueError(
            "--state-dir and --state-store keep the state of a head, which other nodes must find again at the same address: use "
            "them with --head and --port PORT"
        )
    if given.state_dir and given.state_store:
        raise ValueError("--state-dir and --state-store are two places for the same state; use one of them")
    if given.state_grace is not None and not state:
        raise ValueError("--state-grace is for a head with --state-dir or --state-store")
    if given.standby and not (state and given.block):
        raise ValueError(
            "--standby waits for the place of the head: use it with --block and with --state-store, or --state-dir on one machine"
        )
    if given.head:
        if port is None:
            return None
        return detached_node.network_of_head(port, ip, token_file, state, given.state_grace, given.standby)
    if given.address:
        return detached_node.network_of_member(given.address, ip, token_file, given.timeout)
    return None


def _settings(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "num_cpus": given.num_cpus,
        "num_gpus": given.num_gpus,
        "resources": _amounts(given.resources, "--resources"),
        "labels": _all_labels(given),
        "object_store_memory": given.object_store_memory,
        "_memory": given.memory,
        "_node_name": given.node_name,
        "object_spilling_directory": given.object_spilling_directory,
        "_log_folder": given.log_dir and os.path.abspath(given.log_dir),
        "_tracing_hook": _hook(given.tracing_startup_hook),
    }


def _hook(text: str | None) -> str | None:
    if text is None:
        return None
    from skate.client import tracing  # few nodes have one

    return tracing.check(text)


def _amounts(text: str | None, flag: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{flag} must be JSON, such as '{{\"licence\": 2}}', got {text!r} ({error})"
        ) from None
    if not isinstance(found, dict):
        raise ValueError(f"{flag} must be a JSON object, got {text!r}")
    return found


def _all_labels(given: argparse.Namespace) -> dict[str, str] | None:
    """Return the labels of the node; the head of a cluster with an autoscaler has one more."""
    labels = _labels_of_file(given.labels_file)
    if given.labels or labels is None:
        labels = {**(labels or {}), **(_labels(given.labels) or {})} or None
    if given.autoscaling_config is None:
        return labels
    path = _autoscaling_file(given)
    if path is None:
        # Files for Ray name one that its own launcher makes.
        print(
            f"skate start: --autoscaling-config: there is no file {given.autoscaling_config}, so this cluster does not grow",
            file=sys.stderr,
        )
        return labels
    _check_autoscaling(given, path)
    return {**(labels or {}), detached_node.GROWS_LABEL: "on"}


def _autoscaling_file(given: argparse.Namespace) -> str | None:
    """Return the path of the autoscaler's file for a node, which does not stay in this directory; None if there is none."""
    if given.autoscaling_config is None:
        return None
    path = os.path.abspath(os.path.expanduser(given.autoscaling_config))
    return path if os.path.exists(path) else None


def _check_autoscaling(given: argparse.Namespace, path: str) -> None:
    """Raise ValueError if the autoscaler could not run with its file."""
    if not given.head or given.port is None and given.ray_client_server_port is None:
        raise ValueError(
            "--autoscaling-config starts other machines, which must find this one: use it with --head and --port PORT"
        )
    try:
        read(path)
    except ValueError as error:
        raise ValueError(f"--autoscaling-config: {error}") from None


def _labels(text: str | None) -> dict[str, str] | None:
    """Parse labels as JSON, or in Ray's newer form key=value,key=value."""
    if not text or text.lstrip().startswith("{"):
        return _amounts(text, "--labels")
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(middle for _, middle, _ in pairs):
        raise ValueError(f"--labels must be key=value,key=value or JSON, got {text!r}")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _labels_of_file(path: str | None) -> dict[str, str] | None:
    """Read labels from a YAML file."""
    if not path:
        return None
    import yaml  # only this option needs it

    try:
        with open(os.path.expanduser(path)) as file:
            found = yaml.safe_load(file)
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"--labels-file: {path} cannot be read as YAML: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(
            f"--labels-file: {path} must have names and values, such as 'region: us', got {found!r}"
        )
    return {str(key): value for key, value in found.items()}


def _how_to_go_on(found: detached_node.Address, given: argparse.Namespace, seconds: float) -> str:
    named = f" --temp-dir {given.temp_dir}" if given.temp_dir else ""
    where = f"skate://{found.path}" if given.temp_dir else "auto"
    role, others = "", ""
    if found.cluster and given.head:
        role = f", the head of a cluster at {found.cluster}"
        others = f"\n  add a machine: skate start --address={found.cluster}"
        if found.token_file:
            others += f" --token-file {found.token_file} (copy that file there)"
        else:
            others += " (with the same token)"
        others += f'\n  from elsewhere: skate.init("ray://{found.cluster}"), with that token'
        if given.ray_client_server_port not in (None, given.port) and given.port is not None:
            others += f"; no other port is opened, so --ray-client-server-port={given.ray_client_server_port} has no effect"
    elif found.cluster:
        role = f", in the cluster of {found.cluster}"
    return (
        f"A node is up at skate://{found.path}{role} ({seconds:.2f} s).\n"
        f'  join it:      skate.init(address="{where}"), or SKATE_ADDRESS={where} in the environment\n'
        f"  look at it:   skate status{named}\n"
        f"  end it:       skate stop{named}{others}"
    )


def _warn_of_ignored_flags(given: argparse.Namespace) -> None:
    ignored = [f"--{name}" for name in WITHOUT_EFFECT if getattr(given, name.replace("-", "_"), None)]
    if ignored:
        print(
            f"skate start: {', '.join(ignored)}: accepted without effect; Skate has no such ports, and `skate dashboard` serves "
            "state and metrics over HTTP.",
            file=sys.stderr,
        )


def _add_dashboard(parser: argparse.ArgumentParser) -> None:
    """Add the options of the dashboard beside the node."""
    parser.add_argument(
        "--include-dashboard",
        type=_truth,
        metavar="true|false",
        help="serve state, metrics and logs over HTTP",
    )
    parser.add_argument(
        "--dashboard-host", default="127.0.0.1", help="where it listens; default: %(default)s"
    )
    parser.add_argument("--dashboard-port", type=int, help="default: 8265, or a free port if that is taken")
    parser.add_argument(
        "--metrics-export-port",
        type=int,
        metavar="PORT",
        help="serve metrics for Prometheus at --dashboard-host and this port, also without a dashboard; 0: any free one",
    )
    parser.add_argument(
        "--dashboard-tls-cert",
        type=os.path.abspath,
        metavar="FILE",
        help="serve HTTPS with this certificate (PEM)",
    )
    parser.add_argument(
        "--dashboard-tls-key",
        type=os.path.abspath,
        metavar="FILE",
        help="its key, if that is in a file of its own",
    )
    parser.add_argument(
        "--dashboard-allowed-host",
        action="append",
        default=[],
        metavar="NAME:PORT",
        help="another name by which clients reach it; may be repeated",
    )
    parser.add_argument("--jobs", action="store_true", help="(with a dashboard) accept jobs over HTTP")
    parser.add_argument("--plain-http-behind-a-proxy", action="store_true", help=argparse.SUPPRESS)


def _add_state(parser: argparse.ArgumentParser) -> None:
    """Add the options of a head that can be started again."""
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="(with --head) keep the state of the cluster in this folder: other nodes stay while the head is started again",
    )
    parser.add_argument(
        "--state-store",
        metavar="etcd://HOST:2379/CLUSTER",
        help="(with --head) keep it in etcd instead, so that the head can be started again on another machine",
    )
    parser.add_argument(
        "--state-grace",
        type=float,
        metavar="SECONDS",
        help="(with one of these) how long other nodes stay without the head; default: 60",
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="(with one of these and --block) wait while another head has the state, and take over when that has ended",
    )


def _add_resources(parser: argparse.ArgumentParser) -> None:
    """Add the options of what the node has."""
    parser.add_argument("--num-cpus", type=float, help="the number of CPUs; default: all")
    parser.add_argument("--num-gpus", type=float, help="the number of GPUs; default: all")
    parser.add_argument("--resources", help="amounts of custom resources, as JSON")
    parser.add_argument("--labels", help="labels of the node, as key=value,... or JSON")
    parser.add_argument(
        "--labels-file", metavar="FILE", help="a YAML file of labels; those of --labels take precedence"
    )
    parser.add_argument("--node-name", help="name of the node in lists of nodes; default: its address")


def _add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--object-store-memory", type=int, help="bytes for large values; default: 30%% of memory"
    )
    parser.add_argument("--memory", type=int, help="bytes of memory for scheduling; default: 70%%")
    parser.add_argument(
        "--object-spilling-directory", help="the folder for large values when memory is full; default: /tmp"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skate start", description=SUMMARY, allow_abbrev=False)
    parser.add_argument("--head", action="store_true", help="start a cluster with this node")
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="join the cluster whose head listens there; several with commas if the head may move",
    )
    parser.add_argument(
        "--port", type=int, help="(with --head) let other machines join at this TCP port; 0: any free one"
    )
    parser.add_argument(
        "--ray-client-server-port",
        type=int,
        metavar="PORT",
        help="(with --head) the port if --port is missing: programs on other machines connect at the same port",
    )
    parser.add_argument(
        "--node-ip-address", metavar="IP", help="where other machines reach this node; default: found out"
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the secret of the cluster; a head makes one by default",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for the head; default: %(default)g",
    )
    _add_state(parser)
    _add_resources(parser)
    _add_memory(parser)
    parser.add_argument(
        "--autoscaling-config",
        metavar="FILE",
        help="(with --head) start and stop the workers of this cluster file as demand changes, as `skate autoscale` does; "
        "requests that no node can meet wait",
    )
    _add_dashboard(parser)
    parser.add_argument(
        "--log-dir", help="keep what workers print in files of this folder, at most 1 GiB; default: no files"
    )
    parser.add_argument("--tracing-startup-hook", metavar="MODULE:FUNCTION", help=HOOK_HELP)
    parser.add_argument("--temp-dir", help="folder of the node's socket, instead of the user's own")
    parser.add_argument("--block", action="store_true", help="run the node in this process, until Ctrl-C")
    parser.add_argument("-v", "--verbose", action="store_true", help=argparse.SUPPRESS)
    for name, has_value in WITHOUT_EFFECT.items():
        parser.add_argument(
            f"--{name}", action="store" if has_value else "store_true", help=argparse.SUPPRESS
        )
    return parser
