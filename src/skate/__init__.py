"""Skate: Ray's API without daemons. `import skate as ray`, and a program written for Ray runs.

The layout of the package, in the order in which a call passes through it:

    client/     the API in each process: refs, remote functions, actor handles; submit and get
    core/       every decision, without I/O: scheduling, actors, objects, placement
    node/       the shell around the core: input loop, worker processes, shared memory, output of workers
    worker/     receives a task, runs it, reports it
    wire/       messages over sockets, values as bytes
    util/, runtime_env/, cluster_utils, ...   tools that only use public names

Names are loaded on first use, to keep the import fast.
"""

from __future__ import annotations

import sys
from typing import Any

from skate import lazy_loader

_HOMES = {
    "skate.client.actor.actor_class": ("get_actor", "kill", "method"),
    "skate.client.cross_language": ("java_actor_class", "java_function", "Language", "cpp_function"),
    "skate.client.object.generators": ("ObjectRefGenerator", "DynamicObjectRefGenerator"),
    "skate.client.object.ids": ("ActorClassID", "ActorID", "ClusterID", "FunctionID", "JobID", "NodeID",
                                "PlacementGroupID", "TaskID", "UniqueID", "WorkerID"),
    "skate.client.object.object_ref": ("ObjectRef",),
    "skate.client.object.retrieval": ("cancel", "get", "put", "wait"),
    "skate.client.runtime_context": ("get_gpu_ids", "get_runtime_context"),
    "skate.client.session.client_builder": ("ClientBuilder",),
    "skate.client.session.init": ("init",),
    "skate.client.session.logging_config": ("LoggingConfig",),
    "skate.client.session.session": ("is_initialized", "shutdown"),
    "skate.client.state.cluster_queries": ("available_resources", "cluster_resources", "nodes", "timeline"),
    "skate.client.task.remote": ("remote",),
}  # fmt: skip
_PACKAGES = {
    "actor", "air", "autoscaler", "client", "client_builder", "cloudpickle", "cluster_utils", "compat", "cross_language", "dag",
    "dashboard", "data", "exceptions", "experimental", "internal", "job_config", "job_submission", "remote_function",
    "rllib", "runtime_context", "runtime_env", "serve", "train", "tune", "util", "widgets", "types",
}  # fmt: skip

SCRIPT_MODE = 0
WORKER_MODE = 1
LOCAL_MODE = 2
RESTORE_WORKER_MODE = 3
SPILL_WORKER_MODE = 4

_load, _names, _lazy = lazy_loader.attach(globals(), _HOMES, _PACKAGES)
sys.meta_path.append(lazy_loader.FilelessModules("skate", "skate.import_paths"))

__all__ = ["LOCAL_MODE", "SCRIPT_MODE", "WORKER_MODE", "ObjectID", "__version__", "client", *_lazy]


def __getattr__(name: str) -> Any:
    if name == "ObjectID":
        return _load("ObjectRef")
    if name == "__version__":
        from skate.version import RAY_VERSION  # one file less for the import of skate to read

        return RAY_VERSION
    if name == "__commit__":
        return ""  # the sources may come from anywhere
    if name in ("_private", "_raylet", "_common", "state", "worker", "ray_constants", "logger", "_config"):
        return _private_name(name)
    return _load(name)


def _private_name(name: str) -> Any:
    """Private names of Ray that packages use; see `import_paths`."""
    if name == "logger":
        import logging  # takes 10 ms, and few programs need it

        return logging.getLogger("ray")
    if name == "_config":
        return None
    from skate import import_paths  # rarely needed

    return import_paths.load(name)


def __dir__() -> list[str]:
    return sorted({*_names(), *__all__})
