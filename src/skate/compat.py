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

from skate import import_paths
from skate.version import RAY_VERSION

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # importlib.abc imports tempfile and random, which would slow down every worker

# Worker processes read it at start, so that tasks defined in an aliased program also find `ray`.
ENVIRONMENT_VARIABLE = "SKATE_COMPAT"

# Skate's internal packages. Ray has no public modules of these names, so no `ray.` name may resolve to them.
_ENGINE = frozenset({
    "__main__", "aliased", "client", "command", "compat", "core", "crc32c", "fabric", "import_paths", "installed",
    "lazy_loader", "node", "private_names", "procfs", "protocol", "resources", "simulation", "version", "wire", "worker",
})  # fmt: skip


#: The folder on ``sys.path`` where processes that `multiprocessing` spawns find ``ray``; they inherit that list.
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "aliased")


def install() -> None:
    """Make ``import ray`` mean Skate in this process, in workers, and in processes that `multiprocessing` starts from now on.

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
    if _FOLDER not in sys.path:
        sys.path.insert(1, _FOLDER)  # behind the program's own folder, before any installed copy of Ray
    os.environ[ENVIRONMENT_VARIABLE] = "1"


def uninstall() -> None:
    """Undo :func:`install`: ``import ray`` then finds Ray again, if it is installed.

    Modules that imported ``ray`` in between keep the Skate modules.
    """
    if _alias in sys.meta_path:
        sys.meta_path.remove(_alias)
        sys.meta_path.remove(_missing)
    if _FOLDER in sys.path:
        sys.path.remove(_FOLDER)
    for name, module in _aliases.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _aliases.clear()
    os.environ.pop(ENVIRONMENT_VARIABLE, None)


def is_installed() -> bool:
    """Return True if ``import ray`` means Skate in this process."""
    return _alias in sys.meta_path


def install_if_inherited() -> None:
    """Call :func:`install` in a worker if its driver has called it, as recorded in the environment."""
    if os.environ.get(ENVIRONMENT_VARIABLE) == "1":
        install()


#: The modules that are bound to a name of Ray, by that name.
_aliases: dict[str, ModuleType] = {}


class _AliasLoader(Loader):
    """Replaces the empty module that the import system created for the alias with the Skate module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        # If a module were returned here, the import system would overwrite its __spec__ with the alias's, and
        # the Skate module could not be reloaded. Replacing the entry in exec_module leaves it
        # unchanged.
        return None

    def exec_module(self, module: ModuleType) -> None:
        alias = module.__name__
        name = alias[len("ray.") :]
        if name in import_paths.TABLE:
            found = import_paths.load(name)
        else:
            found = importlib.import_module("skate" + alias[len("ray") :])
        if not hasattr(found, "__path__") and import_paths.modules_below(name):
            found.__path__ = []  # otherwise the import system would not look for its submodules
        sys.modules[alias] = _aliases[alias] = found
        _keep_names(alias, found)


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
            sys.modules[f"{alias}.{own}"] = _aliases[f"{alias}.{own}"] = module


class _AliasFinder:
    """Finds ``ray`` and ``ray.*``."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "ray" and not fullname.startswith("ray."):
            return None
        name = fullname[len("ray.") :]
        if name in import_paths.TABLE:
            return ModuleSpec(fullname, _AliasLoader(), is_package=bool(import_paths.modules_below(name)))
        skate_name = "skate" + fullname[len("ray") :]
        found = None if _is_engine(skate_name) else _spec_of(skate_name)
        if found is None:
            if not _in_an_import():
                return None  # a program only asks if there is such a module
            raise ModuleNotFoundError(_absence(skate_name), name=fullname)
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, _AliasLoader(), origin=found.origin, is_package=is_package)

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


def _in_an_import() -> bool:
    """Return True if a finder is called for an import, and not by `importlib.util.find_spec`, which answers None for a
    module that does not exist.

    If the import system's function were renamed, the error would only have its usual text.
    """
    caller = sys._getframe(2).f_back
    return caller is not None and caller.f_code.co_name == "_find_and_load_unlocked"


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
            f"{', '.join('ray.' + name for name in import_paths.private())}"
        )
    parent, _, _ = skate_name.rpartition(".")
    while parent not in sys.modules and "." in parent:
        parent, _, _ = parent.rpartition(".")
    package = importlib.import_module(parent)
    here = "ray" + parent[len("skate") :]
    names = {module.name for module in pkgutil.iter_modules(getattr(package, "__path__", []))}
    names.update(import_paths.modules_below(parent[len("skate.") :]))
    present = sorted(
        f"{here}.{name}" for name in names if name[0] != "_" and not (here == "ray" and name in _ENGINE)
    )
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
