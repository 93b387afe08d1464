"""The table of private names, and the modules created from it on first use."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from skate.private_names.prefix import PREFIX

_HERE = "skate.private_names"
_IDS = ("ActorClassID", "ActorID", "ClusterID", "FunctionID", "JobID", "NodeID", "ObjectID", "PlacementGroupID",
        "TaskID", "UniqueID", "WorkerID")  # fmt: skip
_CALLS = (
    "cancel",
    "get",
    "get_actor",
    "get_gpu_ids",
    "init",
    "is_initialized",
    "kill",
    "put",
    "remote",
    "shutdown",
    "wait",
)
_MODES = ("LOCAL_MODE", "RESTORE_WORKER_MODE", "SCRIPT_MODE", "SPILL_WORKER_MODE", "WORKER_MODE")
_TESTS = (
    "Semaphore", "SignalActor", "async_wait_for_condition", "run_string_as_driver", "run_string_as_driver_nonblocking",
    "wait_for_condition",
)  # fmt: skip
_CLUSTER_TESTS = (
    "chdir", "check_call_ray", "check_call_subprocess", "client_test_enabled", "convert_actor_state",
    "external_redis_test_enabled", "generate_system_config_map", "get_actor_node_id", "get_current_unused_port",
    "get_gpu_visible_devices_env_var", "get_non_head_nodes", "get_other_nodes", "is_placement_group_removed",
    "kill_actor_and_wait_for_failure", "no_resource_leaks_excluding_node_resources", "placement_group_assert_no_leak",
    "put_object", "recursive_fnmatch", "run_string_as_driver_stdout_stderr", "same_elements", "wait_for_assertion",
    "wait_for_children_of_pid", "wait_for_children_of_pid_to_exit", "wait_for_num_actors", "wait_for_pid_to_exit",
    "wait_until_succeeded_without_exception",
)  # fmt: skip
_COMMON = (
    "binary_to_hex", "decode", "env_bool", "env_float", "env_integer", "get_function_args", "get_or_create_event_loop",
    "get_random_alphanumeric_string", "get_system_memory", "hex_to_binary", "import_attr", "import_module_and_attr",
    "load_class", "run_background_task", "try_to_create_directory",
)  # fmt: skip
_UTILS = (
    "ensure_str", "get_directory_size_bytes", "get_num_cpus", "get_ray_doc_version", "get_used_memory", "get_user",
    "is_main_thread", "parse_pg_formatted_resources_to_original", "try_import_each_module", "update_envs",
    "validate_namespace",
)  # fmt: skip
_CONSTANTS: dict[str, Any] = {
    "DEFAULT_DASHBOARD_PORT": 8265,
    "DEFAULT_OBJECT_STORE_MEMORY_PROPORTION": 0.3,
    "DEFAULT_PORT": 6379,
    "DEFAULT_TASK_MAX_RETRIES": 3,
    "HEAD_NODE_RESOURCE_NAME": "node:__internal_head__",
    "ID_SIZE": 28,
    "LOGGER_LEVEL": "info",
    "NODE_ID_PREFIX": "node:",
    "NOSET_CUDA_VISIBLE_DEVICES_ENV_VAR": "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
    "OBJECT_STORE_MINIMUM_MEMORY_BYTES": 75 * 1024 * 1024,
    "RAY_ADDRESS_ENVIRONMENT_VARIABLE": "RAY_ADDRESS",
    "RAY_JOB_CONFIG_JSON_ENV_VAR": "RAY_JOB_CONFIG_JSON_ENV_VAR",
    "RAY_NAMESPACE_ENVIRONMENT_VARIABLE": "RAY_NAMESPACE",
    "RAY_RUNTIME_ENV_ENVIRONMENT_VARIABLE": "RAY_RUNTIME_ENV",
    "REDIS_DEFAULT_PASSWORD": "",
}

#: The location of each name: "module:name", "module" for a whole module, or a constant in a dict with the key "value".
_STATE = {name: f"{_HERE}.state:{name}" for name in (
    "actors", "available_resources_per_node", "jobs", "node_ids", "state", "total_resources_per_node", "workers")}  # fmt: skip
_STATE |= {
    name: f"skate:{name}" for name in ("available_resources", "cluster_resources", "nodes", "timeline")
}
_WORKER = {
    name: f"{_HERE}.worker:{name}"
    for name in ("BaseContext", "RayContext", "Worker", "global_worker", "_global_node")
}
_WORKER |= {name: f"skate:{name}" for name in (*_CALLS, *_MODES)}

TABLE: dict[str, dict[str, Any]] = {
    # modin, OpenRLHF, molt-rl, SkyRL, slime, NeMo-RL
    "_private.services": {
        "get_node_instance_id": "skate.util:get_node_instance_id",
        "get_node_ip_address": "skate.util:get_node_ip_address",
    },
    # vLLM, verl, deltacat, daft, NeMo-RL
    "_private.state": _STATE,
    # OpenRLHF, molt-rl, RLinf, daft, raydp, dagster-ray
    "_private.worker": {**_WORKER, "blocking_get_inside_async_warned": {"value": False}},
    # unidist, modin, verl
    "_private.ray_constants": {name: {"value": value} for name, value in _CONSTANTS.items()},
    # Tests of programs.
    "_private.test_utils": {
        **{name: f"{_HERE}.test_kit:{name}" for name in _TESTS},
        **{name: f"{_HERE}.cluster_test_kit:{name}" for name in _CLUSTER_TESTS},
    },
    "_common.utils": {name: f"{_HERE}.functions:{name}" for name in _COMMON},
    "_private.utils": {name: f"{_HERE}.functions:{name}" for name in (*_COMMON, *_UTILS)},
    "_common.constants": {
        name: {"value": _CONSTANTS[name]} for name in ("HEAD_NODE_RESOURCE_NAME", "NODE_ID_PREFIX")
    },
    "_common.test_utils": {name: f"{_HERE}.test_kit:{name}" for name in _TESTS},
    # Ray_observability, xgboost_ray, mars
    "_raylet": {
        **{
            name: f"skate:{name}"
            for name in (*_IDS, "DynamicObjectRefGenerator", "ObjectRef", "ObjectRefGenerator", "Language")
        },
        "StreamingObjectRefGenerator": "skate:ObjectRefGenerator",
    },
    # lance-ray
    "data._internal.util": {
        "_check_import": f"{_HERE}.library_names:check_import",
        "call_with_retry": f"{_HERE}.library_names:call_with_retry",
    },
    # xgboost_ray, lightgbm_ray
    "train._internal.session": {"get_session": f"{_HERE}.library_names:train_session"},
    # autogluon, cosmos-xenna, NeMo-Curator, xgboost_ray: older names of the modules above.
    "state": _STATE,
    "worker": _WORKER,
    "ray_constants": {name: {"value": value} for name, value in _CONSTANTS.items()},
}

_PACKAGES = {name.rpartition(".")[0] for name in TABLE} - {""}
_PACKAGES |= {name.rpartition(".")[0] for name in _PACKAGES} - {"", "data", "train"}


def has(name: str) -> bool:
    """Return True if the table has a module, named without the leading `ray.`."""
    return name in TABLE or name in _PACKAGES


def is_package(name: str) -> bool:
    """Return True if the table has modules below this one."""
    return name in _PACKAGES


def module(name: str) -> ModuleType:
    """Return a module of the table."""
    full = f"{PREFIX}{name}"
    found = sys.modules.get(full)
    if found is None:
        found = _Private(
            full, f"Private names of Ray that other packages import. {_HERE}.table declares them."
        )
        found.names = TABLE.get(name, {})
        if is_package(name):
            found.__path__ = []
        sys.modules[full] = found
    return found


class _Private(ModuleType):
    """A module that looks its names up in the table on use."""

    names: dict[str, Any]
    __path__: list[str]

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__.get("names", {}).get(name)
        own = self.__name__.removeprefix(PREFIX)
        if home is None:
            if has(f"{own}.{name}"):
                return module(f"{own}.{name}")
            raise AttributeError(
                f"module 'ray.{own}' has no attribute {name!r}: Skate has only the private names of Ray that known "
                f"packages import, in this module: {', '.join(sorted(self.__dict__.get('names', ()))) or 'none'}"
            )
        if isinstance(home, dict):
            return home["value"]
        where, _, attribute = home.partition(":")
        return getattr(importlib.import_module(where), attribute)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__.get("names", ())} - {"names"})
