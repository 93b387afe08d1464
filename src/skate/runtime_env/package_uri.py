"""The URIs of packages that the nodes of a cluster hand to each other, in the form that Ray gives them."""

from __future__ import annotations

import re
from pathlib import Path

from skate.exceptions import RuntimeEnvSetupError

SCHEME = "gcs"
#: The folder of the cache that holds packages.
KIND = "packages"
_PREFIX = "_ray_pkg_"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\.(zip|whl|tar\.gz|tgz)")


def uri_of(package: Path) -> str:
    """Return the URI of a package in the cache."""
    return f"{SCHEME}://{_PREFIX}{package.name}"


def name_of(uri: str) -> str:
    """Return the name of a package, without folders. Raises RuntimeEnvSetupError for any other URI."""
    name = uri.partition("://")[2]
    if not is_name(name):
        raise RuntimeEnvSetupError(
            f"{uri} names no package of this cluster. Use the folder itself, or a URI that can be read from here "
            "(https, s3, gs, file)."
        )
    return name


def is_name(name: str) -> bool:
    """Return True for the name of a package; it may have come from another machine."""
    return _NAME.fullmatch(name) is not None


def cache_key(name: str) -> str:
    """Return the key of a package in the cache."""
    return name.removeprefix(_PREFIX)
