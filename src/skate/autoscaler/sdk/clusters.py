"""The functions of `skate up` and its siblings, under the names of Ray's SDK."""

from __future__ import annotations

import logging
import os
from typing import Any

from skate.launcher import launch
from skate.launcher.cluster_config import parse, read

_logger = logging.getLogger("skate.autoscaler")

#: The path of a cluster's file, or its contents.
ClusterFile = str | os.PathLike[str] | dict[str, Any]


def create_or_update_cluster(
    cluster_config: ClusterFile,
    *,
    no_restart: bool = False,
    restart_only: bool = False,
    no_config_cache: bool = False,
) -> dict[str, Any]:
    """Start the cluster of a file, as `skate up` does.

    Args:
        cluster_config: the path of the file, or its contents.
        no_restart: leave nodes that run as they are.
        restart_only: copy nothing and run no setup commands.
        no_config_cache: without effect.

    Returns: the contents of the file.

    Raises:
        ValueError: the description is invalid, or both `no_restart` and `restart_only` are given.
        RuntimeError: a machine has not started; the message has the reasons.
    """
    if no_restart and restart_only:
        raise ValueError("no_restart and restart_only exclude each other")
    contents = cluster_config if isinstance(cluster_config, dict) else parse(cluster_config)
    steps = launch.Steps(setup=not restart_only, restart=not no_restart)
    _raise_for(launch.up(read(contents), steps, _logger.info), "not started")
    return dict(contents)


def teardown_cluster(
    cluster_config: ClusterFile, workers_only: bool = False, keep_min_workers: bool = False
) -> None:
    """Stop the nodes of a cluster, as `skate down` does.

    Args:
        cluster_config: the path of the file, or its contents.
        workers_only: leave the head as it is.
        keep_min_workers: leave the first `min_workers` workers, and the head, as they are.

    Raises: ValueError, RuntimeError as `create_or_update_cluster`.
    """
    config = read(cluster_config)
    workers = config.workers[config.min_workers :] if keep_min_workers else config.workers
    with_head = not (workers_only or keep_min_workers)
    _raise_for(launch.down(config, workers, with_head, _logger.info), "not stopped")


def run_on_cluster(
    cluster_config: ClusterFile,
    *,
    cmd: str | None = None,
    run_env: str = "auto",
    tmux: bool = False,
    stop: bool = False,
    no_config_cache: bool = False,
    port_forward: Any = None,
    with_output: bool = False,
) -> str | None:
    """Run a shell command on the head of a cluster, and wait for its end.

    Args:
        cluster_config: the path of the file, or its contents.
        cmd: the command.
        run_env: "auto" or "host".
        tmux, port_forward: are for terminals; use `skate exec`.
        stop: stop the cluster after the command.
        no_config_cache: without effect.
        with_output: return what the command prints; by default it is logged.

    Raises:
        ValueError: the description is invalid, there is no command, or an option is not available here.
        RuntimeError: the command has failed.
    """
    if not cmd or tmux or port_forward or run_env == "docker":
        raise ValueError(
            "run_on_cluster needs cmd, without tmux, port_forward and docker; `skate exec` has tmux and --port-forward"
        )
    config = read(cluster_config)
    lines: list[str] = []
    launch.head_of(config).run(launch.shell(config).line(cmd), lines.append if with_output else _logger.info)
    if stop:
        teardown_cluster(cluster_config)
    return "\n".join(lines) if with_output else None


def rsync(
    cluster_config: ClusterFile,
    *,
    source: str | None,
    target: str | None,
    down: bool,
    ip_address: str | None = None,
    use_internal_ip: bool = False,
    no_config_cache: bool = False,
    should_bootstrap: bool = True,
) -> None:
    """Copy files to a machine or from it, as `skate rsync-up` and `skate rsync-down`.

    Args:
        cluster_config: the path of the file, or its contents.
        source, target: paths; without a source, all file mounts are sent.
        down: copy from the machine.
        ip_address: the machine; by default the head.
        use_internal_ip, no_config_cache, should_bootstrap: without effect.

    Raises:
        ValueError: the description is invalid, or `down` has no source.
        RuntimeError: the copy has failed.
    """
    config = read(cluster_config)
    machine = launch.machine_at(config, ip_address)
    if source is not None:
        machine.copy(source, target or source, down=down)
    elif down:
        raise ValueError("rsync(down=True) needs a source")
    else:
        launch.send_mounts(config, machine, launch.shell(config))


def get_head_node_ip(cluster_config: ClusterFile) -> str:
    """Return the address of the head. Raises ValueError for an invalid description."""
    return read(cluster_config).head_login


def get_worker_node_ips(cluster_config: ClusterFile) -> list[str]:
    """Return the addresses of the workers. Raises ValueError for an invalid description."""
    return list(read(cluster_config).workers)


def _raise_for(failed: dict[str, str], what: str) -> None:
    if failed:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in sorted(failed.items()))
        raise RuntimeError(f"{len(failed)} of the machines have {what}: {reasons}")
