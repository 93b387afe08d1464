"""Pickles of checkpoints: classes of `skate.rllib` are written as those of `ray.rllib`, so that Ray opens them as well."""

from __future__ import annotations

import io
import pickle
import pkgutil
import sys
import types
from typing import Any

from skate.cloudpickle import Pickler

#: Modules of Ray whose classes Skate has elsewhere.
_RAY_MODULES = {"ray.rllib.algorithms.algorithm_config.config": "ray.rllib.algorithms.algorithm_config"}
#: Connectors that Skate has in one module for each way, by the modules of Ray that have one each.
_CONNECTORS = {
    "ray.rllib.connectors.env_to_module.defaults": {
        "AddObservationsFromEpisodesToBatch": "common.add_observations_from_episodes_to_batch",
        "AddStatesFromEpisodesToBatch": "common.add_states_from_episodes_to_batch",
        "AddTimeDimToBatchAndZeroPad": "common.add_time_dim_to_batch_and_zero_pad",
        "AgentToModuleMapping": "common.agent_to_module_mapping",
        "BatchIndividualItems": "common.batch_individual_items",
        "EnvToModulePipeline": "env_to_module.env_to_module_pipeline",
        "NumpyToTensor": "common.numpy_to_tensor",
    },
    "ray.rllib.connectors.module_to_env.defaults": {
        "GetActions": "module_to_env.get_actions",
        "ListifyDataForVectorEnv": "module_to_env.listify_data_for_vector_env",
        "ModuleToAgentUnmapping": "common.module_to_agent_unmapping",
        "ModuleToEnvPipeline": "module_to_env.module_to_env_pipeline",
        "NormalizeAndClipActions": "module_to_env.normalize_and_clip_actions",
        "RemoveSingleTsTimeRankFromBatch": "module_to_env.remove_single_ts_time_rank_from_batch",
        "TensorToNumpy": "common.tensor_to_numpy",
        "UnBatchToIndividualItems": "module_to_env.unbatch_to_individual_items",
    },
}
_HOMES_OF_CONNECTORS = {
    f"ray.rllib.connectors.{module}:{name}": home
    for home, modules in _CONNECTORS.items()
    for name, module in modules.items()
}


class NotAvailable:
    """Stands for a class of Ray that a checkpoint names and Skate does not have; the fields that hold it are left out."""

    name = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> NotAvailable:
        """Accept any arguments, since the pickled ones are of the other class."""
        return super().__new__(cls)

    def __setstate__(self, state: Any) -> None:
        """Drop the state of the other class."""


class _Pickler(Pickler):  # type: ignore[misc]
    """Writes `skate.rllib.X` as `ray.rllib.X`, and what a script defines by value."""

    def reducer_override(self, obj: Any) -> Any:
        path = _path_in_ray(obj)
        # A call by name and not the name itself: the pickler refuses names that are not importable here.
        return super().reducer_override(obj) if path is None else (pkgutil.resolve_name, (path,))


def _path_in_ray(obj: Any) -> str | None:
    """Return the path of a class, function or module of Skate's in Ray, None for everything else."""
    if isinstance(obj, types.ModuleType):
        is_ours = obj.__name__ == "skate" or _is_of_rllib(obj.__name__)
        return _with_prefix(obj.__name__, "skate", "ray") if is_ours else None
    if not isinstance(obj, type | types.FunctionType) or not _is_of_rllib(obj.__module__):
        return None
    found: Any = sys.modules.get(obj.__module__)
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    if found is not obj:  # made inside a function
        return None
    module = _with_prefix(obj.__module__, "skate", "ray")
    connector = _CONNECTORS.get(module, {}).get(obj.__qualname__)
    if connector is not None:
        return f"ray.rllib.connectors.{connector}:{obj.__qualname__}"
    return f"{_RAY_MODULES.get(module, module)}:{obj.__qualname__}"


def _is_of_rllib(module: str | None) -> bool:
    return module is not None and (module == "skate.rllib" or module.startswith("skate.rllib."))


def _with_prefix(module: str, old: str, new: str) -> str:
    return new + module[len(old) :]


class _Unpickler(pickle.Unpickler):
    """Reads `ray.X` as `skate.X`."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (pkgutil.resolve_name.__module__, pkgutil.resolve_name.__qualname__):
            return self._resolve
        if module != "ray" and not module.startswith("ray."):
            return super().find_class(module, name)
        module = _HOMES_OF_CONNECTORS.get(f"{module}:{name}", module)
        try:
            return super().find_class(_with_prefix(module, "ray", "skate"), name)
        except (ImportError, AttributeError):
            # A program may have loaded a module of Ray that Skate does not have, such as one of Ray's examples.
            loaded = getattr(sys.modules.get(module), name, None)
            if loaded is not None:
                return loaded
            return type(name.rpartition(".")[2], (NotAvailable,), {"name": f"{module}.{name}"})

    def _resolve(self, path: str) -> Any:
        module, _, name = path.partition(":")
        if name:
            return self.find_class(module, name)
        return pkgutil.resolve_name(_with_prefix(module, "ray", "skate") if module[:3] == "ray" else module)


def is_available(value: Any) -> bool:
    """True unless a value, or something in a container, is of a class that Skate does not have."""
    if isinstance(value, dict):
        return all(is_available(each) for each in value.values())
    if isinstance(value, list | tuple | set):
        return all(is_available(each) for each in value)
    return not isinstance(value, NotAvailable) and not (
        isinstance(value, type) and issubclass(value, NotAvailable)
    )


def loads(contents: bytes) -> Any:
    """Return the pickled value; classes of `ray.rllib` are those of `skate.rllib`."""
    return _Unpickler(io.BytesIO(contents)).load()


def dumps(value: Any) -> bytes:
    """Return a value as bytes that `loads` reads, and Ray if it has all of the classes in it."""
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()
