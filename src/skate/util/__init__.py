"""Tools on top of tasks and actors: pools, queues, placement groups, metrics, diagnosis.

actor_pool.py             ActorPool: spread calls over a fixed set of actors
queue.py                  Queue, Empty, Full: a first-in, first-out queue held by an actor
multiprocessing/          Pool with the interface of multiprocessing.Pool
joblib/                   register_ray: joblib's Parallel on actors
iteration.py              as_completed, map_unordered
placement_group.py        placement_group and the calls around it
scheduling_strategies.py  strategies for the placement of tasks and actors
accelerators/             names of accelerator types
check_serialize.py        inspect_serializability: why a value cannot be sent
serialization.py          register_serializer, deregister_serializer
metrics.py                Counter, Gauge, Histogram
debug.py                  log_once
annotations.py            PublicAPI, DeveloperAPI, Deprecated
state/                    list_tasks, get_actor, memory_summary: the state of the session
nodes.py                  get_node_ip_address, get_node_instance_id
client_connect.py         connect, disconnect: rejected, with the replacement

Every name is loaded on first use, so that `import skate` imports none of them.
"""

# No `from __future__ import annotations` here: the name would hide the sub-module of that name.
import sys
import types
from typing import TYPE_CHECKING, Any

from skate import lazy_loader

if TYPE_CHECKING:
    from skate.client.actor.actor_class import list_named_actors
    from skate.util import accelerators
    from skate.util.actor_pool import ActorPool
    from skate.util.check_serialize import inspect_serializability
    from skate.util.client_connect import connect, disconnect
    from skate.util.debug import disable_log_once_globally, enable_periodic_logging, log_once
    from skate.util.iterators.iteration import as_completed, map_unordered
    from skate.util.nodes import get_node_instance_id, get_node_ip_address
    from skate.util.placement_group import (
        PlacementGroup,
        get_current_placement_group,
        get_placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from skate.util.serialization import deregister_serializer, register_serializer

_HOMES = {
    "skate.client.actor.actor_class": ("list_named_actors",),
    "skate.util.actor_pool": ("ActorPool",),
    "skate.util.check_serialize": ("inspect_serializability",),
    "skate.util.client_connect": (
        "connect",
        "disconnect",
    ),
    "skate.util.debug": (
        "disable_log_once_globally",
        "enable_periodic_logging",
        "log_once",
    ),
    "skate.util.iterators.iteration": (
        "as_completed",
        "map_unordered",
    ),
    "skate.util.nodes": (
        "get_node_instance_id",
        "get_node_ip_address",
    ),
    "skate.util.placement_group": (
        "PlacementGroup",
        "get_current_placement_group",
        "get_placement_group",
        "placement_group_table",
        "remove_placement_group",
    ),
    "skate.util.serialization": (
        "deregister_serializer",
        "register_serializer",
    ),
}

# Sub-modules that programs reach as attributes, without importing them first.
_SUBMODULES = frozenset(
    {
        "accelerators",
        "actor_pool",
        "annotations",
        "check_serialize",
        "debug",
        "joblib",
        "metrics",
        "multiprocessing",
        "queue",
        "scheduling_strategies",
        "serialization",
        "state",
    }
)

__all__ = [
    "ActorPool",
    "PlacementGroup",
    "accelerators",
    "as_completed",
    "connect",
    "deregister_serializer",
    "disable_log_once_globally",
    "disconnect",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]


__getattr__, _names, _ = lazy_loader.attach(globals(), _HOMES, _SUBMODULES)
_function: dict[str, Any] = {"__name__": __name__}
_load_function = lazy_loader.getter(_function, {"skate.util.placement_group": ("placement_group",)})


def __dir__() -> list[str]:
    return sorted({*_names(), *__all__})


class _Package(types.ModuleType):
    """Keeps `placement_group` bound to the function, whatever was imported before.

    A function and a sub-module share that name, and importing the sub-module makes Python set the attribute to
    the module. A property is found before the module's own dictionary, and its setter drops that write.
    """

    @property
    def placement_group(self) -> Any:
        return _function.get("placement_group") or _load_function("placement_group")

    @placement_group.setter
    def placement_group(self, module: types.ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Package
