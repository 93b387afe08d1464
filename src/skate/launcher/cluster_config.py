"""The file of a cluster: Ray's format with the provider `local`, read into a record."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Keys of the file, with their types.
KEYS: dict[str, type | tuple[type, ...]] = {
    "cluster_name": str, "provider": dict, "auth": dict, "min_workers": int, "max_workers": int, "docker": dict,
    "upscaling_speed": (int, float), "idle_timeout_minutes": (int, float), "initialization_commands": list,
    "setup_commands": list,
    "head_setup_commands": list, "worker_setup_commands": list, "head_start_ray_commands": list,
    "worker_start_ray_commands": list, "file_mounts": dict, "rsync_exclude": list, "rsync_filter": list,
    "cluster_synced_files": list, "file_mounts_sync_continuously": bool, "metadata": dict, "no_restart": bool,
}  # fmt: skip
PROVIDER_KEYS = ("type", "head_ip", "worker_ips", "external_head_ip", "coordinator_address")
AUTH_KEYS = ("ssh_user", "ssh_private_key", "ssh_proxy_command")
#: Keys with a meaning for clouds only.
CLOUD_KEYS = ("available_node_types", "head_node_type", "head_node", "worker_nodes")
IDLE_TIMEOUT_MINUTES = 5.0
HEAD_START = ("skate stop", "skate start --head --port=6379")
WORKER_START = ("skate stop", "skate start --address=$RAY_HEAD_IP:6379")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*|[0-9a-fA-F]*:[0-9a-fA-F:.]+")
_STARTS = re.compile(r"\b(?:ray|skate)\s+start\b")
_STOPS = re.compile(r"\b(?:ray|skate)\s+stop\b")


@dataclass(frozen=True)
class Auth:
    """How to log in: user, path of a private key, and a ProxyCommand of OpenSSH; None leaves it to the user's ssh_config."""

    user: str | None = None
    private_key: str | None = None
    proxy_command: str | None = None


@dataclass(frozen=True)
class Commands:
    """The shell commands of the head, or those of the workers, in the order in which they run."""

    initialization: tuple[str, ...]
    setup: tuple[str, ...]
    start: tuple[str, ...]

    @property
    def stop(self) -> tuple[str, ...]:
        """The commands that end the node: those of `start` that do, so that they run in the same environment."""
        found = tuple(each for each in self.start if _STOPS.search(each) and not _STARTS.search(each))
        return found or ("skate stop",)


@dataclass(frozen=True)
class FileMounts:
    """Local paths by the path that they get on each machine, and rsync's options for them."""

    sources: Mapping[str, str]
    exclude: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterConfig:
    """One cluster.

    Attributes:
        name: the name of the cluster.
        head: the address at which the workers reach the head.
        head_login: the address at which this machine reaches the head.
        workers: the addresses of the other machines.
        min_workers: the number of workers that start with the head.
        max_workers: the number of workers that an autoscaler may start.
        idle_timeout_s: when an autoscaler retires an unused worker, in seconds.
    """

    name: str
    head: str
    head_login: str
    workers: tuple[str, ...]
    min_workers: int
    auth: Auth
    on_head: Commands
    on_workers: Commands
    mounts: FileMounts
    max_workers: int
    idle_timeout_s: float

    @property
    def port(self) -> int | None:
        """The port of the head, as far as its commands name it."""
        found = re.search(r"--(?:port|ray-client-server-port)[= ](\d+)", " ".join(self.on_head.start))
        return None if found is None else int(found.group(1))

    @property
    def started_workers(self) -> tuple[str, ...]:
        """The workers that start with the head."""
        return self.workers[: self.min_workers]


def read(
    source: str | os.PathLike[str] | Mapping[str, Any],
    name: str | None = None,
    min_workers: int | None = None,
    max_workers: int | None = None,
) -> ClusterConfig:
    """Read the description of a cluster.

    Args:
        source: the path of a YAML file, or its contents.
        name, min_workers, max_workers: replace the values of the file.

    Raises:
        ValueError: the description is invalid, or describes a cluster that Skate does not start; the message has the remedy.
        OSError: the file cannot be read.
    """
    found = dict(source) if isinstance(source, Mapping) else parse(source)
    given = {"cluster_name": name, "min_workers": min_workers, "max_workers": max_workers}
    found |= {key: value for key, value in given.items() if value is not None}
    _check_provider(found.get("provider"))
    _check_keys(found)
    _refuse_unsupported(found)
    return _record(found)


def parse(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a cluster's file. Raises ValueError, OSError."""
    try:
        import yaml  # `import skate` must not require it
    except ImportError:
        raise ValueError("cluster files need PyYAML: pip install 'skate[cluster]'") from None
    with open(path) as file:
        try:
            found = yaml.safe_load(file)
        except yaml.YAMLError as error:
            raise ValueError(f"{os.fspath(path)} is not valid YAML: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{os.fspath(path)} must be a mapping with the keys provider and auth, got {found!r:.60}"
        )
    return found


def _check_provider(provider: Any) -> None:
    """Raise ValueError for a provider other than `local`, with the way to such machines."""
    if not isinstance(provider, Mapping) or "type" not in provider:
        raise ValueError(
            "the cluster file needs a provider, such as `provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}`"
        )
    kind = provider["type"]
    if kind in ("kubernetes", "kuberay"):
        raise ValueError(
            f"provider type {kind!r}: `skate up` starts nodes by SSH. For Kubernetes, `skate manifest kubernetes` "
            "prints manifests to apply with kubectl"
        )
    if kind != "local":
        raise ValueError(
            f"provider type {kind!r}: `skate up` makes no machines in a cloud. Start them with the cloud's own tools (console, "
            "Terraform), then use `provider: {type: local, head_ip: ..., worker_ips: [...]}` with their addresses"
        )
    _check_names(provider, PROVIDER_KEYS, "provider")
    if provider.get("coordinator_address"):
        raise ValueError(
            "provider.coordinator_address: Skate has no coordinator server; name head_ip and worker_ips"
        )
    if not provider.get("head_ip"):
        raise ValueError("provider.head_ip is missing: the address of the machine that becomes the head")
    workers = provider.get("worker_ips") or []
    if not isinstance(workers, list):
        raise ValueError(f"provider.worker_ips must be a list of addresses, got {workers!r:.60}")
    hosts = [provider["head_ip"], *workers, *filter(None, [provider.get("external_head_ip")])]
    for host in hosts:
        if not isinstance(host, str) or not _HOST.fullmatch(host):
            raise ValueError(f"provider: {host!r:.60} is not an address or the name of a machine")
    twice = sorted({host for host in workers if [provider["head_ip"], *workers].count(host) > 1})
    if twice:
        raise ValueError(
            f"provider.worker_ips: {', '.join(twice)} is named twice; each machine runs one node"
        )


def _check_names(section: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in section:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, 1)
            hint = f"; do you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
            raise ValueError(f"{where} has the unknown key {key!r}{hint}")


def _check_keys(found: Mapping[str, Any]) -> None:
    for key in CLOUD_KEYS:
        if key in found:
            raise ValueError(
                f"{key} describes machines of a cloud; with `provider: {{type: local}}`, worker_ips names them"
            )
    _check_names(found, tuple(KEYS), "the cluster file")
    for key, value in found.items():
        if value is not None and (
            not isinstance(value, KEYS[key]) or isinstance(value, bool) != (KEYS[key] is bool)
        ):
            kinds = KEYS[key]
            wanted = kinds.__name__ if isinstance(kinds, type) else "number"
            raise ValueError(f"{key} must be a {wanted}, got {value!r:.60}")
        if isinstance(value, list) and not all(isinstance(each, str) for each in value):
            raise ValueError(f"{key} must be a list of strings, got {value!r:.80}")


def _refuse_unsupported(found: Mapping[str, Any]) -> None:
    if any((found.get("docker") or {}).values()):
        raise ValueError(
            "docker: `skate up` runs nodes on the machines themselves. Remove the section, or run containers by your own "
            "commands: head_start_ray_commands: [docker run --net=host IMAGE skate start --head --port=6379 --block]"
        )
    for key in ("cluster_synced_files", "file_mounts_sync_continuously"):
        if found.get(key):
            raise ValueError(
                f"{key}: files are sent from this machine, when `skate up` runs; use file_mounts"
            )


def _record(found: Mapping[str, Any]) -> ClusterConfig:
    provider = found["provider"]
    name = found.get("cluster_name") or "default"
    if not _NAME.fullmatch(name):
        raise ValueError(f"cluster_name {name!r}: use letters, digits, '.', '_' and '-'")
    workers = tuple(provider.get("worker_ips") or ())
    both = {key: tuple(found.get(key) or ()) for key in KEYS if key.endswith("_commands")}
    on_head = Commands(
        both["initialization_commands"],
        both["setup_commands"] + both["head_setup_commands"],
        both["head_start_ray_commands"] or HEAD_START,
    )
    on_workers = Commands(
        both["initialization_commands"],
        both["setup_commands"] + both["worker_setup_commands"],
        both["worker_start_ray_commands"] or WORKER_START,
    )
    _check_start(on_head, bool(workers))
    least, most = _workers(found, len(workers))
    idle_minutes = found.get("idle_timeout_minutes")
    return ClusterConfig(
        name, provider["head_ip"], provider.get("external_head_ip") or provider["head_ip"], workers,
        least, _auth(found.get("auth") or {}), on_head, on_workers,
        FileMounts(_mounts(found), tuple(found.get("rsync_exclude") or ()), tuple(found.get("rsync_filter") or ())),
        most, 60.0 * (IDLE_TIMEOUT_MINUTES if idle_minutes is None else idle_minutes),
    )  # fmt: skip


def _check_start(on_head: Commands, has_workers: bool) -> None:
    """Raise ValueError if the head does not start, or would not listen for its workers."""
    starts = [each for each in on_head.start if _STARTS.search(each)]
    if not any("--head" in each for each in starts):
        raise ValueError("head_start_ray_commands has no `skate start --head --port=6379`")
    if has_workers and not any("--port" in each or "--ray-client-server-port" in each for each in starts):
        raise ValueError(
            "head_start_ray_commands: the head listens only with --port; write `skate start --head --port=6379`"
        )


def _workers(found: Mapping[str, Any], workers: int) -> tuple[int, int]:
    """Return the least and the greatest number of workers; by default both are all. Raises ValueError."""
    most = found.get("max_workers")
    most = workers if most is None else most
    least = found.get("min_workers")
    least = most if least is None else least
    if not 0 <= least <= most <= workers:
        raise ValueError(
            f"min_workers={least} and max_workers={most} must be in this order between 0 and the {workers} of worker_ips"
        )
    return least, most


def _auth(section: Mapping[str, Any]) -> Auth:
    _check_names(section, AUTH_KEYS, "auth")
    for name, value in section.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"auth.{name} must be a string, got {value!r:.60}")
    user, key = section.get("ssh_user"), section.get("ssh_private_key")
    if user is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._@\\-]*", user):
        raise ValueError(f"auth.ssh_user {user!r} is not a user's name")
    if key is not None:
        key = os.path.expanduser(key)
        if not os.path.exists(key):
            raise ValueError(f"auth.ssh_private_key: there is no file {key}")
    return Auth(user, key, section.get("ssh_proxy_command"))


def _mounts(found: Mapping[str, Any]) -> dict[str, str]:
    mounts = {}
    for target, source in (found.get("file_mounts") or {}).items():
        if not isinstance(target, str) or not isinstance(source, str):
            raise ValueError(
                f"file_mounts must map a path on the machines to a local path, got {target!r}: {source!r}"
            )
        local = os.path.expanduser(source)
        if not os.path.exists(local):
            raise ValueError(f"file_mounts: there is no local file or folder {local} for {target}")
        mounts[target] = local
    return mounts
