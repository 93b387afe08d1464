"""Skate: Ray's API without daemons. `import skate as ray`, and a program written for Ray runs.

How the package is laid out, in the order in which a call meets it:

    client/     what one process holds: refs, remote functions, actor handles; submit and get
    core/       every decision, without I/O: scheduling, actors, objects, placement
    node/       the shell around the core: input loop, worker processes, shared memory, output of workers
    worker/     receives a task, runs it, reports it
    wire/       messages over sockets, values as bytes
    util/, runtime_env/, cluster_utils, ...   what stands on the public names

Names are looked up when they are first used, so that importing costs little.
"""

from __future__ import annotations

import importlib
from typing import Any

from skate.version import RAY_VERSION as __version__

_HOMES = {
    "ObjectRef": "skate.client.object.object_ref",
    "ObjectID": "skate.client.object.object_ref",
    "ObjectRefGenerator": "skate.client.object.generators",
    "DynamicObjectRefGenerator": "skate.client.object.generators",
    "LoggingConfig": "skate.client.session.logging_config",
    "available_resources": "skate.client.state.cluster_queries",
    "cancel": "skate.client.object.retrieval",
    "ClientBuilder": "skate.client.session.client_builder",
    "cluster_resources": "skate.client.state.cluster_queries",
    "get": "skate.client.object.retrieval",
    "get_actor": "skate.client.actor.actor_class",
    "get_gpu_ids": "skate.client.runtime_context",
    "get_runtime_context": "skate.client.runtime_context",
    "init": "skate.client.session.init",
    "is_initialized": "skate.client.session.session",
    "kill": "skate.client.actor.actor_class",
    "method": "skate.client.actor.actor_class",
    "nodes": "skate.client.state.cluster_queries",
    "put": "skate.client.object.retrieval",
    "remote": "skate.client.task.remote",
    "shutdown": "skate.client.session.session",
    "timeline": "skate.client.state.cluster_queries",
    "wait": "skate.client.object.retrieval",
    "java_actor_class": "skate.client.cross_language",
    "java_function": "skate.client.cross_language",
    "Language": "skate.client.cross_language",
    "cpp_function": "skate.client.cross_language",
    **dict.fromkeys(
        (
            "ActorClassID",
            "ActorID",
            "ClusterID",
            "FunctionID",
            "JobID",
            "NodeID",
            "PlacementGroupID",
            "TaskID",
            "UniqueID",
            "WorkerID",
        ),
        "skate.client.object.ids",
    ),  # fmt: skip
}
_PACKAGES = {
    "actor", "air", "autoscaler", "client", "client_builder", "cloudpickle", "cluster_utils", "compat", "cross_language", "dag",
    "data", "exceptions", "experimental", "internal", "job_config", "job_submission", "remote_function", "runtime_context",
    "runtime_env", "serve", "train", "tune", "util", "widgets", "types",
}  # fmt: skip

SCRIPT_MODE = 0
WORKER_MODE = 1
LOCAL_MODE = 2
RESTORE_WORKER_MODE = 3
SPILL_WORKER_MODE = 4

__all__ = ["LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE", "__version__", "client", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(home), "ObjectRef" if name == "ObjectID" else name)
        globals()[name] = value
        return value
    if name in ("_private", "_raylet", "_common", "state", "worker", "ray_constants", "logger", "_config"):
        return _private_name(name)
    if name in _PACKAGES:
        try:
            return importlib.import_module(f"skate.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"skate.{name}":
                raise
            raise AttributeError(f"this version of Skate has no skate.{name} yet") from None
    raise AttributeError(f"module 'skate' has no attribute {name!r}")


def _private_name(name: str) -> Any:
    """Private names of Ray that packages use; see `private_names.table`."""
    if name == "logger":
        return importlib.import_module("logging").getLogger("ray")
    if name == "_config":
        return None
    return importlib.import_module("skate.private_names.table").module(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
