"""Parts of Train that need an optional library: loaded on first use of a name, with an error that names a
missing library."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skate import lazy_loader
from skate.installed import missing


def lazily(
    package: str, homes: Mapping[str, Sequence[str]], library: str, extra: str
) -> tuple[Callable[[str], Any], list[str]]:
    """Return `__getattr__` and `__all__` of a package whose modules import an optional library.

    Args:
        package: the package's `__name__`.
        homes: the names defined by each module.
        library: the optional library.
        extra: the extra of Skate that installs it.
    """
    full = {f"{package}.{home}": names for home, names in homes.items()}
    load, _, names = lazy_loader.attach({"__name__": package}, full)
    part = "ray" + package.removeprefix("skate")

    def found(name: str) -> Any:
        try:
            return load(name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != library.partition(".")[0]:
                raise
            raise missing(library, part, f"'skate[{extra}]'") from error

    return found, names
