"""The import hook of private names. It loads the table on the first import of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from skate.private_names.prefix import PREFIX

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    # importlib.abc imports tempfile and random, which would cost each worker 0.2 ms after its fork.
    Loader = object


class Finder:
    """Finds the modules of private names under the prefix."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX[:-1]):
            return None
        from skate.private_names.table import has  # imported here because few programs use private names

        name = fullname.removeprefix(PREFIX)
        if fullname + "." == PREFIX or (name != fullname and has(name)):
            return ModuleSpec(fullname, _Loader(), is_package=True)
        return None


class _Loader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from skate.private_names.table import module  # imported here because few programs use private names

        name = spec.name.removeprefix(PREFIX)
        return ModuleType(spec.name) if name == spec.name else module(name)

    def exec_module(self, module: ModuleType) -> None:
        """No-op: the module's content comes from the table."""
