"""Public names of packages, loaded on first use: a package lists its names by the modules that define them.

`FilelessModules` is the import hook for modules that are nothing but such a list.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


def attach(
    namespace: dict[str, Any], homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package.

    Args:
        namespace: the package's `globals()`, which keep a name once it is loaded.
        homes: the names that each module defines.
        modules: submodules that are available as attributes without a separate import.
    """
    lazy = [name for names in homes.values() for name in names]
    submodules = list(modules)

    def names() -> list[str]:
        return sorted({*namespace, *lazy, *submodules})

    return getter(namespace, homes, submodules), names, sorted(lazy)


def getter(
    namespace: dict[str, Any], homes: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Return `__getattr__` of a module; see `attach`."""
    package = namespace["__name__"]
    home_of = {name: home for home, names in homes.items() for name in names}
    parts = frozenset(modules)

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is not None:
            value = namespace[name] = getattr(importlib.import_module(home), name)
            return value
        # Ray imports most of its modules with their packages, so programs name them without an import.
        full = f"{package}.{name}"
        if name in parts or (name[0] != "_" and "__path__" in namespace):
            try:
                return importlib.import_module(full)
            except ModuleNotFoundError as error:
                if error.name != full:
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


class FilelessModules:
    """Finds modules of a package that have no file. It loads their table when nothing else has found a module."""

    def __init__(self, package: str, table: str) -> None:
        """`table` names the module whose `spec` returns the spec of a module, or None."""
        self._prefix = package + "."
        self._table = table

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the table."""
        if not fullname.startswith(self._prefix):
            return None
        found: ModuleSpec | None = importlib.import_module(self._table).spec(fullname)
        return found
