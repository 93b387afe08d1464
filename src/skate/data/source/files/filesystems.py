"""Resolution of users' paths to one filesystem and the paths in it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from skate.installed import require

#: Arrow's own filesystems; all others are looked up in fsspec.
_ARROW_SCHEMES = frozenset({"s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss"})
_LOCAL_SCHEMES = frozenset({"", "file", "local"})


def resolve(paths: Any, filesystem: Any = None) -> tuple[list[str], pafs.FileSystem]:
    """Return the paths in the form that the filesystem takes, and the filesystem.

    Args:
        paths: a path or URL as str or Path, or several of them.
        filesystem: a `pyarrow.fs` or fsspec filesystem; None to derive it from the URLs.

    Raises:
        TypeError: for values that are not paths.
        ValueError: for an empty list of paths, or URLs of several filesystems.
        ImportError: for a scheme whose filesystem is not installed.
    """
    given = as_list(paths)
    if filesystem is not None:
        found = as_arrow(filesystem)
        return [_in_filesystem(path, found, filesystem) for path in given], found
    schemes = {scheme_of(path) for path in given}
    schemes = {"" if scheme in _LOCAL_SCHEMES else scheme for scheme in schemes}
    if len(schemes) > 1:
        raise ValueError(
            f"the paths are of several filesystems ({', '.join(sorted(s or 'local' for s in schemes))}); read "
            "each separately and combine them with union()"
        )
    if schemes == {""}:
        return [_local(path) for path in given], pafs.LocalFileSystem()
    roots = {_root_of(path) for path in given}
    if len(roots) > 1 and schemes & _ARROW_SCHEMES:
        queries = {query for _, _, query in roots}
        if len(queries) > 1 or any("@" in netloc for _, netloc, _ in roots):
            raise ValueError("the URLs ask for different credentials or options; read each separately")
    found = _by_root(*sorted(roots)[0])
    return [_remote(path, found) for path in given], found


def as_list(paths: Any) -> list[str]:
    """Convert one or several paths to strings. Raises ValueError for other types and for an empty list,
    TypeError for other types in a list."""
    if isinstance(paths, (str, Path)):
        paths = [paths]
    elif isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise ValueError(f"paths must be str, pathlib.Path, or list, got {type(paths)}: {paths!r:.80}")
    given = []
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"a path must be a str or a Path, got {type(path).__name__}: {path!r:.80}")
        given.append(os.fspath(path))
    if not given:
        raise ValueError("Must provide at least one path. Name a file or a directory")
    return given


def scheme_of(path: str) -> str:
    """The scheme of a URL in lower case; empty for a plain path."""
    scheme, separator, _ = path.partition("://")
    return scheme.lower() if separator and scheme.replace("+", "").replace("-", "").isalnum() else ""


def as_arrow(filesystem: Any) -> pafs.FileSystem:
    """Convert a filesystem of Arrow or fsspec to one of Arrow. Raises TypeError for anything else."""
    if isinstance(filesystem, pafs.FileSystem):
        return filesystem
    if hasattr(filesystem, "unwrap"):
        return as_arrow(filesystem.unwrap())
    if hasattr(filesystem, "_strip_protocol"):
        return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
    raise TypeError(
        f"filesystem must be a pyarrow.fs.FileSystem or an fsspec filesystem, got {type(filesystem).__name__}; "
        "leave it out to use the scheme of the URLs"
    )


def of_fsspec(filesystem: pafs.FileSystem) -> Any:
    """Return the fsspec filesystem inside one of Arrow, or None."""
    handler = getattr(filesystem, "handler", None)
    return getattr(handler, "fs", None)


def is_local(filesystem: pafs.FileSystem) -> bool:
    """True if files are on this machine's disk, so that opening one is cheap."""
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return is_local(filesystem.base_fs)
    if isinstance(filesystem, pafs.LocalFileSystem):
        return True
    inner = of_fsspec(filesystem)
    return inner is not None and type(inner).__name__ == "LocalFileSystem"


def renames(filesystem: pafs.FileSystem) -> bool:
    """True if a rename replaces a file atomically; object stores copy instead, but show no object before it is
    complete.
    """
    if isinstance(filesystem, pafs.SubTreeFileSystem):
        return renames(filesystem.base_fs)
    if isinstance(filesystem, pafs.PyFileSystem):
        inner = of_fsspec(filesystem)
        return type(inner).__name__ in (
            "LocalFileSystem",
            "SFTPFileSystem",
            "HadoopFileSystem",
            "ArrowFSWrapper",
        )
    return isinstance(filesystem, (pafs.LocalFileSystem, pafs.HadoopFileSystem))


def _local(path: str) -> str:
    if scheme_of(path) in ("file", "local"):
        path = path.partition("://")[2]
        path = unquote(path[len("localhost") :] if path.startswith("localhost/") else path)
    return os.path.abspath(os.path.expanduser(path))


def _root_of(path: str) -> tuple[str, str, str]:
    """The parts of a URL that determine its filesystem: scheme, host or bucket, options."""
    scheme = scheme_of(path)
    rest = path.partition("://")[2]
    body, _, query = (
        rest.rpartition("?") if "?" in rest and "=" in rest.rpartition("?")[2] else (rest, "", "")
    )
    netloc = body.partition("/")[0]
    if scheme not in _ARROW_SCHEMES:
        return scheme, "", ""
    return scheme, netloc, query


@functools.lru_cache(maxsize=64)
def _by_root(scheme: str, netloc: str, query: str) -> pafs.FileSystem:
    if scheme in _ARROW_SCHEMES:
        url = f"{scheme}://{netloc}" + (f"?{query}" if query else "")
        try:
            return pafs.FileSystem.from_uri(url)[0]
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            if query:
                raise
    return _from_fsspec(scheme)


def _from_fsspec(scheme: str) -> pafs.FileSystem:
    fsspec = require("fsspec", f"a URL of {scheme}://")
    try:
        inner = fsspec.filesystem(scheme)
    except ValueError:
        raise ValueError(f"unknown filesystem for {scheme}://; pass filesystem=, or check the URL") from None
    except ImportError as error:
        raise ImportError(f"{scheme}:// needs a library that is not installed: {error}") from None
    return pafs.PyFileSystem(pafs.FSSpecHandler(inner))


def _remote(path: str, filesystem: pafs.FileSystem) -> str:
    inner = of_fsspec(filesystem)
    if inner is not None:
        return str(inner._strip_protocol(path))
    return _without_scheme(path)


def _without_scheme(path: str) -> str:
    scheme, netloc, query = _root_of(path)
    rest = path.partition("://")[2]
    if query:
        rest = rest[: -len(query) - 1]
    if scheme in ("hdfs", "viewfs"):
        return "/" + rest.partition("/")[2]
    if "@" in netloc:  # credentials, or a container before its account
        rest = rest.partition("@")[0 if scheme.startswith("abfs") else 2]
    return rest.rstrip("/")


def _in_filesystem(path: str, filesystem: pafs.FileSystem, asked: Any) -> str:
    """Convert a path for the user's filesystem."""
    inner = of_fsspec(filesystem)
    if inner is not None:
        return str(inner._strip_protocol(path))
    scheme = scheme_of(path)
    if isinstance(filesystem, pafs.LocalFileSystem):
        return _local(path)
    if scheme:
        return _without_scheme(path)
    return path.rstrip("/") if len(path) > 1 else path
