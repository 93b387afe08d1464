"""Lets programs that say ``import ray`` run on Skate: ``ray`` and ``ray.*`` become names for ``skate.*``.

A finder at the head of ``sys.meta_path`` resolves ``ray`` before any installed copy of Ray, and returns
Skate's own module objects. So ``ray.util is skate.util``, and a class has one identity under both names. Two
alternatives were rejected: filling ``sys.modules`` in advance would import every library at start, and a
package named ``ray`` on disk would collide with the real one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate.private_names import table
from skate.version import RAY_VERSION

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc imports tempfile and random, which would slow down every worker

# Worker processes read it at start, so that tasks defined in an aliased program also find `ray`.
ENVIRONMENT_VARIABLE = "SKATE_COMPAT"

# Skate's internal packages. Ray has no public modules of these names, so no `ray.` name may resolve to them.
_ENGINE = frozenset({
    "__main__", "client", "command", "compat", "core", "crc32c", "fabric", "installed", "lazy_loader", "node", "procfs",
    "protocol", "resources", "simulation", "version", "wire", "worker",
})  # fmt: skip

# Public modules of Ray whose counterpart in Skate has another name.
_MOVED = {
    "ray.dag.compiled_dag_node": "skate.dag.compiled",
    "ray.dag.dag_node": "skate.dag.node",
    "ray.experimental.channel.cached_channel": "skate.experimental.channel.interface",
    "ray.experimental.channel.common": "skate.experimental.channel",
    "ray.experimental.channel.cpu_communicator": "skate.experimental.channel.group_communicator",
    "ray.experimental.channel.intra_process_channel": "skate.experimental.channel.interface",
    "ray.experimental.channel.shared_memory_channel": "skate.experimental.channel",
    "ray.experimental.channel.torch_tensor_type": "skate.experimental.channel.types",
    "ray.experimental.collective.operations": "skate.experimental.collective",
    "ray.experimental.compiled_dag_ref": "skate.dag.references",
    "ray.util.state.util": "skate.util.state.conversion",
    "ray.air.result": "skate.train.result",
    "ray.air.util": "skate.air",
    "ray.air.util.tensor_extensions": "skate.data.extensions",
    "ray.air.util.tensor_extensions.arrow": "skate.data.extensions.arrow_types",
    "ray.train._internal": "skate.train",
    "ray.train._internal.session": "skate.train.session",
    "ray.train.context": "skate.train.worker.train_context",
    "ray.train.error": "skate.train.errors",
    "ray.train.collective.collectives": "skate.train.collective",
    "ray.train.lightgbm.lightgbm_checkpoint": "skate.train.lightgbm.checkpoint",
    "ray.train.lightgbm.lightgbm_trainer": "skate.train.lightgbm.trainer",
    "ray.train.lightgbm.v2": "skate.train.lightgbm.trainer",
    "ray.train.tensorflow.tensorflow_checkpoint": "skate.train.tensorflow.checkpoint",
    "ray.train.tensorflow.tensorflow_trainer": "skate.train.tensorflow.trainer",
    "ray.train.torch.torch_checkpoint": "skate.train.torch.checkpoint",
    "ray.train.torch.torch_trainer": "skate.train.torch.trainer",
    "ray.train.torch.train_loop_utils": "skate.train.torch",
    "ray.train.xgboost.v2": "skate.train.xgboost.trainer",
    "ray.train.xgboost.xgboost_checkpoint": "skate.train.xgboost.checkpoint",
    "ray.train.xgboost.xgboost_trainer": "skate.train.xgboost.trainer",
    "ray.train.v2": "skate.train",
    "ray.train.v2.api": "skate.train",
    "ray.train.v2.jax": "skate.train.jax",
    "ray.train.v2.jax.config": "skate.train.jax.config",
    "ray.train.v2.jax.jax_trainer": "skate.train.jax.trainer",
    "ray.train.v2.lightgbm": "skate.train.lightgbm",
    "ray.train.v2.lightgbm.lightgbm_trainer": "skate.train.lightgbm.trainer",
    "ray.train.v2.tensorflow": "skate.train.tensorflow",
    "ray.train.v2.tensorflow.tensorflow_trainer": "skate.train.tensorflow.trainer",
    "ray.train.v2.torch": "skate.train.torch",
    "ray.train.v2.torch.torch_trainer": "skate.train.torch.trainer",
    "ray.train.v2.torch.train_loop_utils": "skate.train.torch",
    "ray.train.v2.xgboost": "skate.train.xgboost",
    "ray.train.v2.xgboost.config": "skate.train.xgboost.config",
    "ray.train.v2.xgboost.xgboost_trainer": "skate.train.xgboost.trainer",
    "ray.train.v2.api.callback": "skate.train.callback",
    "ray.train.v2.api.config": "skate.train.configs",
    "ray.train.v2.api.context": "skate.train.worker.train_context",
    "ray.train.v2.api.data_parallel_trainer": "skate.train.trainer",
    "ray.train.v2.api.exceptions": "skate.train.errors",
    "ray.train.v2.api.preemption": "skate.train.errors",
    "ray.train.v2.api.report_config": "skate.train.modes",
    "ray.train.v2.api.reported_checkpoint": "skate.train.modes",
    "ray.train.v2.api.result": "skate.train.result",
    "ray.train.v2.api.train_fn_utils": "skate.train",
    "ray.train.v2.api.validation_config": "skate.train.modes",
    "ray.data.preprocessors.utils": "skate.data.preprocessors.hasher",
    "ray.data._internal": "skate.data.internal",
    "ray.data._internal.datasource": "skate.data.internal",
    "ray.data._internal.datasource.webdataset_datasource": "skate.data.source.formats.webdataset",
    "ray.data._internal.execution": "skate.data.internal",
    "ray.data._internal.execution.interfaces": "skate.data.internal",
    "ray.data._internal.execution.interfaces.task_context": "skate.data.internal",
    "ray.data._internal.util": "skate.data.internal",
    "ray.tune.analysis.experiment_analysis": "skate.tune.analysis",
    "ray.tune.cli": "skate.tune",
    "ray.tune.cli.commands": "skate.tune.list_trials",
    "ray.tune.cli.scripts": "skate.tune.command",
    "ray.tune.examples.utils": "skate.tune.examples.iris",
    "ray.tune.experiment.config_parser": "skate.tune.experiment.experiment",
    "ray.tune.logger.aim": "skate.air.integrations.aim",
    "ray.tune.logger.comet": "skate.air.integrations.comet",
    "ray.tune.logger.csv": "skate.air.loggers.table",
    "ray.tune.logger.json": "skate.air.loggers.lines",
    "ray.tune.logger.logger": "skate.air.logger_callback",
    "ray.tune.logger.mlflow": "skate.air.integrations.mlflow",
    "ray.tune.logger.tensorboardx": "skate.air.loggers.tensorboard",
    "ray.tune.logger.wandb": "skate.air.integrations.wandb",
    "ray.tune.search.ax.ax_search": "skate.tune.search.ax",
    "ray.tune.search.bayesopt.bayesopt_search": "skate.tune.search.bayesopt",
    "ray.tune.search.bohb.bohb_search": "skate.tune.search.bohb",
    "ray.tune.search.hebo.hebo_search": "skate.tune.search.hebo",
    "ray.tune.search.hyperopt.hyperopt_search": "skate.tune.search.hyperopt",
    "ray.tune.search.nevergrad.nevergrad_search": "skate.tune.search.nevergrad",
    "ray.tune.search.optuna.optuna_search": "skate.tune.search.optuna",
    "ray.tune.search.zoopt.zoopt_search": "skate.tune.search.zoopt",
    "ray.tune.stopper.noop": "skate.tune.stopper.stopper",
    "ray.tune.trainable.function_trainable": "skate.tune.trainable.function",
    "ray.tune.trainable.trainable_fn_utils": "skate.tune",
    "ray.tune.trainable.util": "skate.tune.trainable.bound_parameters",
    "ray.tune.utils.util": "skate.tune.utils",
}


def install() -> None:
    """Make ``import ray`` mean Skate in this process, and in workers that it starts from now on.

    A second call has no effect. Ray may be installed beside Skate, and is not changed.

    Raises:
        ImportError: Ray itself was imported earlier in this process, so other modules may already use it.
    """
    present = sys.modules.get("ray")
    if present is not None and present is not sys.modules.get("skate"):
        where = getattr(present, "__file__", None) or "an unknown location"
        raise ImportError(
            f"ray is already imported in this process, from {where}, so it can no longer be "
            "replaced by Skate; call skate.compat.install() before the first import of ray",
            name="ray",
        )
    if _alias not in sys.meta_path:
        sys.meta_path.insert(0, _alias)
        sys.meta_path.append(_missing)
    os.environ[ENVIRONMENT_VARIABLE] = "1"


def uninstall() -> None:
    """Undo :func:`install`: ``import ray`` then finds Ray again, if it is installed.

    Modules that imported ``ray`` in between keep the Skate modules.
    """
    if _alias in sys.meta_path:
        sys.meta_path.remove(_alias)
        sys.meta_path.remove(_missing)
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        if sys.modules.get(_MOVED.get(name) or "skate" + name[len("ray") :]) is sys.modules[name]:
            del sys.modules[name]
    os.environ.pop(ENVIRONMENT_VARIABLE, None)


def is_installed() -> bool:
    """Return True if ``import ray`` means Skate in this process."""
    return _alias in sys.meta_path


def install_if_inherited() -> None:
    """Call :func:`install` in a worker if its driver has called it, as recorded in the environment."""
    if os.environ.get(ENVIRONMENT_VARIABLE) == "1":
        install()


class _AliasLoader(Loader):
    """Replaces the empty module that the import system created for the alias with the Skate module."""

    def __init__(self, target: str) -> None:
        self._target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        # If a module were returned here, the import system would overwrite its __spec__ with the alias's, and
        # the Skate module could not be reloaded. Replacing the entry in exec_module leaves it
        # unchanged.
        return None

    def exec_module(self, module: ModuleType) -> None:
        found = importlib.import_module(self._target)
        if not hasattr(found, "__path__") and any(name.startswith(module.__name__ + ".") for name in _MOVED):
            found.__path__ = []  # otherwise the import system would not look for its submodules
        sys.modules[module.__name__] = found
        _keep_names(module.__name__, found)


def _keep_names(alias: str, package: ModuleType) -> None:
    """Bind submodules whose name is also another attribute of the package now: `serve.deployment` is a
    function.

    Otherwise the import system would replace the attribute with the module when a program first imports the
    module by its alias.
    """
    prefix = package.__name__ + "."
    for name, module in list(sys.modules.items()):
        own = name[len(prefix) :] if name.startswith(prefix) else ""
        if own and "." not in own and vars(package).get(own, module) is not module:
            sys.modules[f"{alias}.{own}"] = module


class _PrivateLoader(Loader):
    """The same for modules in the table of private names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = table.module(self._name)


class _AliasFinder:
    """Finds ``ray`` and ``ray.*``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "ray" and not fullname.startswith("ray."):
            return None
        skate_name = _MOVED.get(fullname) or "skate" + fullname[len("ray") :]
        private = skate_name.removeprefix("skate.")
        if table.has(private):
            return ModuleSpec(fullname, _PrivateLoader(private), is_package=table.is_package(private))
        found = None if _is_engine(skate_name) else _spec_of(skate_name)
        if found is None:
            raise ModuleNotFoundError(_absence(skate_name), name=fullname)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(skate_name), origin=found.origin, is_package=is_package)

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """Return Ray's distribution, for programs that look up its version."""
        if (context.name or "").lower() == "ray":
            yield _distribution()


class _MissingFinder:
    """The last finder: called for modules that no other finder knows, to raise a better error for ``from ray
    import tune``.

    The import system looks for ``skate.tune`` there, because the module's own name is ``skate``. It would
    replace a ModuleNotFoundError with an error about the name, but lets a plain ImportError through.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith("skate.") and not _is_engine(fullname) and _in_a_from_import():
            raise ImportError(_absence(fullname), name=fullname)
        return None


def _in_a_from_import() -> bool:
    """Return True if the current import is for a name after ``from ... import``.

    The import system does not tell its finders, so this looks for the name of its function on the stack. If
    that function were renamed, the error would only have its usual text.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
        if frame.f_code.co_name == "_handle_fromlist":
            return True
        frame = frame.f_back
    return False


def _spec_of(skate_name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(skate_name)
    except ModuleNotFoundError as error:
        # The module or its parent is missing; any other missing module is a bug in Skate.
        if error.name is not None and (skate_name + ".").startswith(error.name + "."):
            return None
        raise


def _is_engine(skate_name: str) -> bool:
    parts = skate_name.split(".")
    return len(parts) > 1 and (parts[1] in _ENGINE or parts[1].startswith("_"))


def _absence(skate_name: str) -> str:
    """Format the error that ``ray.X`` has no counterpart, with the alternatives."""
    ray_name = "ray" + skate_name[len("skate") :]
    if ray_name.split(".")[1].startswith("_"):
        return (
            f"{ray_name} is an internal module of Ray, which Skate does not have; use the public API "
            "of ray. The internal modules available here, because packages use them, are: "
            f"{', '.join(sorted('ray.' + name for name in table.TABLE))}"
        )
    parent, _, _ = skate_name.rpartition(".")
    while parent not in sys.modules and "." in parent:
        parent, _, _ = parent.rpartition(".")
    package = importlib.import_module(parent)
    present = sorted(
        f"ray{parent[len('skate') :]}.{module.name}"
        for module in pkgutil.iter_modules(getattr(package, "__path__", []))
        if not module.name.startswith("_") and not (parent == "skate" and module.name in _ENGINE)
    )
    here = "ray" + parent[len("skate") :]
    return f"Skate has no {ray_name}; the available modules of {here} are: {', '.join(present) or 'none'}"


def _distribution() -> Any:
    """Return the distribution of ``ray`` for `importlib.metadata`, with the version of the implemented API."""
    import importlib.metadata  # takes 30 ms, and the caller has imported it

    class Distribution(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: ray\nVersion: {RAY_VERSION}\nSummary: the API of Ray, by Skate\n"

        def locate_file(self, path: Any) -> Any:
            return pathlib.Path(__file__).parents[1] / path

    return Distribution()


_alias = _AliasFinder()
_missing = _MissingFinder()
