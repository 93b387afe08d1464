"""Download of a working directory or a module from a URI."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.fields import protocol_of

_CHUNK_BYTES = 1024**2
# No data on a connection for this long is an error, regardless of the deadline.
_SILENCE_S = 60.0


def fetch(uri: str, target: Path, deadline: Deadline) -> None:
    """Download `uri`, other than a package of a cluster, into the file `target`. Raises RuntimeEnvSetupError if that fails."""
    protocol = protocol_of(uri)
    shown = shown_uri(uri)
    try:
        with _opened(uri, protocol) as source, open(target, "wb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                deadline.check(f"fetching {shown}")
                out.write(chunk)
    except RuntimeEnvSetupError:
        raise
    except Exception as error:  # any error: each fsspec file system has its own types
        raise RuntimeEnvSetupError(f"{shown} cannot be fetched: {type(error).__name__}: {error}") from error


def _opened(uri: str, protocol: str | None) -> IO[bytes]:
    if protocol == "file":
        return open(file_path(uri), "rb")
    if protocol == "https":
        # urllib.request costs 30 ms to import, with http, ssl and email behind it.
        import urllib.request

        opened: IO[bytes] = urllib.request.urlopen(uri, timeout=_SILENCE_S)
        return opened
    return _opened_by_fsspec(uri, protocol)


def _opened_by_fsspec(uri: str, protocol: str | None) -> IO[bytes]:
    try:
        # fsspec is optional: only remote file systems need it.
        import fsspec  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RuntimeEnvSetupError(
            f"{shown_uri(uri)} cannot be fetched, because reading {protocol}:// needs the package fsspec, "
            "which is not "
            "installed: pip install fsspec and the package of this file system (s3fs, gcsfs, adlfs)."
        ) from error
    opened: Any = fsspec.open(uri, "rb").open()
    return opened  # type: ignore[no-any-return]


def file_path(uri: str) -> str:
    """Return the path in a file:// or local:// URI."""
    parts = urlsplit(uri)
    return (
        unquote(parts.netloc + parts.path) if parts.netloc not in ("", "localhost") else unquote(parts.path)
    )


def shown_uri(uri: str) -> str:
    """Return a URI without secrets: no password, and no query, which may contain signatures."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{host}{parts.path}{query}"
