"""The settings of a session, checked once, at `init`."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from skate import procfs
from skate.core.resource.resources import UNIT, to_units
from skate.node.memory import memory_readings
from skate.node.spill.spill_target import SpillPlace
from skate.protocol.values import LOOPBACK

#: Settings of Ray that have no meaning here and are accepted without effect.
_WITHOUT_EFFECT = {
    "include_dashboard", "dashboard_host", "dashboard_port", "job_config", "configure_logging", "logging_level",
    "logging_format", "logging_config", "enable_resource_isolation", "cgroup_path", "system_reserved_cpu",
    "system_reserved_memory", "proxy_server_url", "ignore_reinit_error",
}  # fmt: skip
#: Ray's variable for the resources of a node, and the settings that they replace.
OVERRIDES = "RAY_OVERRIDE_RESOURCES"
SETTINGS_OF = {
    "CPU": "num_cpus",
    "GPU": "num_gpus",
    "memory": "_memory",
    "object_store_memory": "object_store_memory",
}
#: Settings of a node, which a driver that joins it cannot change.
OF_THE_NODE = (
    "num_cpus",
    "num_gpus",
    "resources",
    "labels",
    "object_store_memory",
    "_memory",
    "_node_name",
    "object_spilling_directory",
)
_KNOWN = {
    "num_cpus", "num_gpus", "resources", "labels", "object_store_memory", "local_mode", "log_to_driver", "namespace",
    "runtime_env", "preload", "_memory", "_system_config", "_temp_dir", "_node_name", "_node_ip_address",
    "_labels", "listen", "object_spilling_directory",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)  # a method that nobody uses takes 0.3 ms of each start
class Settings:
    """The settings given to `init`."""

    num_cpus: float
    num_gpus: float
    resources: dict[str, float]
    labels: dict[str, str]
    object_store_memory: int
    memory: int
    namespace: str
    runtime_env: dict[str, Any] | None
    local_mode: bool = False
    log_to_driver: bool = True
    preload: tuple[str, ...] = ()
    #: The bytes that the node and its workers may use together (0: the limit of the machine or container), the share of it
    #: above which a worker is killed, and the interval of checks (0: never).
    memory_limit: int = 0
    memory_threshold: float = 0.95
    memory_refresh_seconds: float = 0.25
    gpu_ids: tuple[Any, ...] = field(default=())
    spill: SpillPlace = field(default=SpillPlace())
    #: Where other nodes reach this one.
    node_ip_address: str = LOOPBACK
    #: The name of the node for people; empty for its address.
    node_name: str = ""
    #: The folder of log files of a standing node; empty for none.
    log_folder: str = ""
    #: The function that sets up tracing in drivers that join, and in their workers; empty for none.
    tracing_hook: str = ""

    @classmethod
    def unpacked(cls, plain: dict[str, Any]) -> Settings:
        """Restore settings from a dict of `dataclasses.asdict`."""
        spill = plain["spill"]
        place = SpillPlace(**{**spill, "folders": tuple(spill["folders"])})
        return cls(**{**plain, "preload": tuple(plain["preload"]), "spill": place})

    @classmethod
    def of(cls, address: str | None, given: dict[str, Any]) -> Settings:
        """Check the given settings of a node and fill in the others. Raise TypeError and ValueError."""
        return cls._of(address, _overridden(given))

    @classmethod
    def _of(cls, address: str | None, given: dict[str, Any]) -> Settings:
        _check_names(given)
        _check_address(address)
        cpus = _number("num_cpus", given.get("num_cpus"))
        gpus = _number("num_gpus", given.get("num_gpus"))
        memory = _memory_of_machine()
        store = _bytes("object_store_memory", given.get("object_store_memory"))
        if store is not None and store < 75 * 1024 * 1024:
            raise ValueError(
                f"Attempting to cap object store memory usage at {store} bytes, but the minimum allowed is "
                f"{75 * 1024 * 1024} bytes (75 MiB)"
            )
        namespace = given.get("namespace")
        if namespace is not None and not isinstance(namespace, str):
            raise TypeError(f"namespace must be None or a string, got {namespace!r}")
        if namespace == "":
            raise ValueError('"" is not a valid namespace; leave it out to get a random one')
        visible = _visible_gpus()
        ids = (
            visible
            if gpus is None
            else tuple(visible[: int(gpus)] if len(visible) >= int(gpus) else range(int(gpus)))
        )
        return cls(
            num_cpus=float(procfs.cpu_count()) if cpus is None else cpus,
            num_gpus=float(len(ids)) if gpus is None else gpus,
            resources=_resources(given.get("resources")),
            labels=_labels(given.get("labels") or given.get("_labels")),
            object_store_memory=store or max(1 << 28, int(memory * 0.3)),
            memory=_bytes("_memory", given.get("_memory")) or int(memory * 0.7),
            namespace=namespace or os.environ.get("RAY_NAMESPACE") or _random_name(),
            runtime_env=_environment(given.get("runtime_env")),
            local_mode=bool(given.get("local_mode")),
            log_to_driver=_prints(given.get("log_to_driver")),
            preload=_preload(given.get("preload")),
            memory_limit=memory_limit(),
            memory_threshold=_threshold(),
            memory_refresh_seconds=_refresh_seconds(),
            gpu_ids=ids,
            spill=SpillPlace.of(given),
            node_ip_address=_ip_address(given.get("_node_ip_address")),
            node_name=str(given.get("_node_name") or ""),
            log_folder=given.get("_log_folder") or "",
            tracing_hook=given.get("_tracing_hook") or "",
        )

    @classmethod
    def joining(cls, address: str, given: dict[str, Any]) -> Settings:
        """Return the settings of a driver that joins a node. Raise ValueError for settings that belong to the node."""
        for name in OF_THE_NODE:
            if given.get(name) is not None:
                raise ValueError(
                    f"{name} is a setting of a node, but the node at {address} is already running; "
                    "leave it out, or pass it to `skate start` (for a cluster: to add_node())"
                )
        return cls._of("local", {name: value for name, value in given.items() if name not in OF_THE_NODE})

    def totals(self, is_head: bool = True) -> dict[str, int]:
        """Return the resources of the node, in units."""
        total = {"CPU": to_units(self.num_cpus, "num_cpus")}
        if self.num_gpus:
            total["GPU"] = to_units(self.num_gpus, "num_gpus")
        total["memory"] = self.memory * UNIT
        total["object_store_memory"] = self.object_store_memory * UNIT
        total[f"node:{self.node_ip_address}"] = UNIT
        if is_head:
            total["node:__internal_head__"] = UNIT
        for name, amount in self.resources.items():
            total[name] = to_units(amount, name)
        return total


def _prints(given: object) -> bool:
    """Return True if the output of workers is printed: unless the program or the environment says no."""
    if given is None:
        return os.environ.get("RAY_LOG_TO_DRIVER", "1").lower() in ("1", "true")
    return given is not False


def _ip_address(given: object) -> str:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"_node_ip_address must be a string, got {given!r}")
    return given or LOOPBACK


def _check_names(given: dict[str, Any]) -> None:
    for name in given:
        if name in _KNOWN or name in _WITHOUT_EFFECT or name.startswith("_"):
            continue
        import difflib  # 4 ms, and only errors need it

        near = difflib.get_close_matches(name, [*_KNOWN, *_WITHOUT_EFFECT], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RuntimeError(f"Unknown keyword argument(s): {name} is not a setting of init(){hint}")


def _check_address(address: str | None) -> None:
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address must be a string, got {address!r}")
    from skate.node.driver.address import given_address  # only sessions need it

    wanted = given_address(address)
    if wanted in (None, "", "local"):
        return
    from skate.exceptions import RaySystemError  # only errors need the tree

    raise ConnectionError(
        f"init(address={wanted!r}): an address is the path of a node's socket on this machine "
        '(skate:///run/user/1000/skate/node-123.sock, or "auto"), or HOST:PORT of the cluster that the node of this machine '
        "belongs to; leave it out to host a node in this process (and unset SKATE_ADDRESS and RAY_ADDRESS)"
    ) from RaySystemError("no such cluster")


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if value < 0:
        raise ValueError(f"Resource quantities must be nonnegative: {name} must be 0 or more, got {value}")
    return float(value)


def _bytes(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of bytes, got {value!r}")
    if value <= 0:
        raise ValueError(f"{name} must be a number of bytes above 0, got {value}")
    return int(value)


def _random_name() -> str:
    """Return the text of a random UUID; importing the module `uuid` takes as long as a tenth of a start."""
    text = bytearray(os.urandom(16))
    text[6] = text[6] & 0x0F | 0x40
    text[8] = text[8] & 0x3F | 0x80
    found = text.hex()
    return "-".join((found[:8], found[8:12], found[12:16], found[16:20], found[20:]))


def _labels(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise TypeError(f'labels must be a dict, such as {{"region": "us-west"}}, got {given!r}')
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError(f"labels has {name!r}: {value!r}; the names and values of labels must be str")
        if name.startswith("ray.io/node-id"):
            raise ValueError(f"labels cannot set {name!r}, because each node sets its own id there")
    return dict(given)


def _overridden(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the resources of RAY_OVERRIDE_RESOURCES in the place of those that were given.

    The variable is JSON, such as ``{"CPU": 3, "licence": 2}``. Launchers of clusters set it for the nodes that they start.
    """
    text = os.environ.get(OVERRIDES)
    if not text:
        return given
    try:
        amounts = json.loads(text)
    except ValueError as error:
        raise ValueError(f'{OVERRIDES} must be JSON, such as {{"CPU": 3}}, got {text!r} ({error})') from None
    if not isinstance(amounts, dict):
        raise ValueError(f'{OVERRIDES} must be a dict of amounts in JSON, such as {{"CPU": 3}}, got {text!r}')
    settings = {setting: amounts.pop(name) for name, setting in SETTINGS_OF.items() if name in amounts}
    return {**given, **settings, "resources": {**(given.get("resources") or {}), **amounts}}


def _resources(given: Any) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise TypeError(f'resources must be a dict of amounts, such as {{"licence": 2}}, got {given!r}')
    found = {}
    for name, amount in given.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a resource must be a string, got {name!r}")
        if name in ("CPU", "GPU"):
            raise ValueError(
                f"`{name}` cannot be a custom resource because it is one of the default resources: use "
                f"num_{name.lower()}s={amount} instead of resources={{{name!r}: {amount}}}"
            )
        found[name] = _number(f"resources[{name!r}]", amount) or 0.0
        if found[name] != int(found[name]):
            raise ValueError(
                f"resources={{{name!r}: {amount}}}: a node must have a whole number of a resource; only tasks "
                "may request fractions"
            )
    return found


def _environment(given: Any) -> dict[str, Any] | None:
    if not given:
        return None
    from skate.runtime_env import prepare  # only sessions with an environment need it

    return prepare.validate(given, where="init()")


def _preload(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise TypeError(f'preload must be a list of module names, such as ["torch"], got {given!r}')
    return tuple(given)


def memory_limit() -> int:
    """Return SKATE_MEMORY_LIMIT in bytes, for the node and its workers together; 0 if it is not set. Raise ValueError."""
    text = os.environ.get("SKATE_MEMORY_LIMIT", "").strip()
    if not text:
        return 0
    number = text.rstrip("iBbKkMmGgTt ")
    unit = text[len(number) :].strip().lower()
    try:
        return int(float(number) * _SIZES[unit])
    except (ValueError, KeyError):
        raise ValueError(
            f'SKATE_MEMORY_LIMIT={text!r} is not a size; use bytes, or a number with a unit such as "4GiB" or "500MB"'
        ) from None


_SIZES = {"": 1, "b": 1} | {
    f"{letter}{kind}": base**power
    for power, letter in enumerate("kmgt", 1)
    for kind, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


def _threshold() -> float:
    name = "SKATE_MEMORY_THRESHOLD"
    text = os.environ.get(name)
    if text is None:
        name = "RAY_memory_usage_threshold"
        text = os.environ.get(name, "0.95")
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(
            f"{name}={text!r} is not a fraction of the memory; use a number above 0 and at most 1"
        )
    return share


def _refresh_seconds() -> float:
    name = "RAY_memory_monitor_refresh_ms"
    text = os.environ.get(name, "250")
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = -1.0
    if not 0 <= milliseconds < 1e9:
        raise ValueError(f"{name}={text!r} is not a time; use milliseconds, or 0 to disable it")
    return milliseconds / 1000


def _memory_of_machine() -> int:
    """Return the bytes that this process may use: the least of the machine, its cgroups and SKATE_MEMORY_LIMIT."""
    whole = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), memory_readings.usable_bytes())
    return min(whole, memory_limit() or whole)


def _visible_gpus() -> tuple[Any, ...]:
    """Return the ids of the NVIDIA GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(
            int(each) if each.isdigit() else each for each in named.split(",") if each and each != "-1"
        )
    try:
        return tuple(range(len(os.listdir("/proc/driver/nvidia/gpus"))))
    except OSError:
        return ()
