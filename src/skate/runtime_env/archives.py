"""Unpacking of untrusted archives: nothing is written outside of the target folder.

Rejected are absolute names, names with "..", devices, and links that lead out. Links are created after all
files, and only then checked against the finished tree, because a chain of links can lead out although each
looks harmless.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from skate.exceptions import RuntimeEnvSetupError

_CHUNK_BYTES = 1024**2


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of an archive of any format."""

    name: str
    kind: str  # "file", "folder", "link" or another kind
    executable: bool
    link: str
    handle: Any


def unpack(archive: Path, target: Path, *, source: str, lift_single_folder: bool = False) -> None:
    """Unpack a zip or tar archive into the new folder `target`.

    Args:
        source: the archive's name in errors.
        lift_single_folder: drop the top-level folder, if there is just one.

    Raises RuntimeEnvSetupError if it is not an archive, is damaged, or contains entries that could reach
    outside of `target`.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened_zip:
                _extract(list(_zip_items(opened_zip)), opened_zip.open, target, source, lift_single_folder)
        elif tarfile.is_tarfile(archive):
            with tarfile.open(archive) as opened_tar:
                _extract(
                    list(_tar_items(opened_tar)), opened_tar.extractfile, target, source, lift_single_folder
                )
        else:
            raise RuntimeEnvSetupError(f"{source} is neither a zip nor a tar archive.")
    except RuntimeEnvSetupError:
        raise
    except Exception as error:  # any error: decompressors raise various types for damaged archives
        raise RuntimeEnvSetupError(f"the archive {source} cannot be unpacked: {error}.") from error


def _zip_items(archive: zipfile.ZipFile) -> Iterator[_Item]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        link = ""
        if info.is_dir():
            kind = "folder"
        elif stat.S_ISLNK(mode):
            kind, link = "link", archive.read(info).decode("utf-8", "surrogateescape")
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            kind = "file"
        else:
            kind = "special file"
        yield _Item(info.filename, kind, bool(mode & stat.S_IXUSR), link, info)


def _tar_items(archive: tarfile.TarFile) -> Iterator[_Item]:
    for info in archive:
        if info.isdir():
            kind = "folder"
        elif info.isreg() or info.islnk():
            kind = "file"  # a hard link is unpacked as a copy of its target in the archive
        elif info.issym():
            kind = "link"
        else:
            kind = "special file"
        yield _Item(info.name, kind, bool(info.mode & stat.S_IXUSR), info.linkname, info)


def _extract(items: list[_Item], opened: Any, target: Path, source: str, lift: bool) -> None:
    paths = [(item, _parts(item, source)) for item in items]
    paths = [(item, parts) for item, parts in paths if parts]
    if lift and _lies_in_one_folder(paths):
        paths = [(item, parts[1:]) for item, parts in paths if len(parts) > 1]
    target.mkdir(parents=True)
    links = []
    for item, parts in paths:
        place = target.joinpath(*parts)
        if item.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
        elif item.kind == "link":
            links.append((item, place))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            with closing(opened(item.handle)) as content:
                _write(content, place, item.executable)
    for item, place in links:
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(item.link, place)
    root = os.path.realpath(target)
    for item, place in links:
        if os.path.commonpath([root, os.path.realpath(place)]) != root:
            raise RuntimeEnvSetupError(
                f"the archive {source} is not safe to unpack: its link {item.name!r} points outside "
                f"of it, to {item.link!r}. Nothing was unpacked."
            )


def _write(content: IO[bytes], place: Path, executable: bool) -> None:
    # Exclusive, so that a duplicate name, or a folder's name, is an error.
    with open(
        os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if executable else 0o644), "wb"
    ) as out:
        shutil.copyfileobj(content, out, _CHUNK_BYTES)


def _parts(item: _Item, source: str) -> tuple[str, ...]:
    """Return the path of an item; reject one that could reach outside."""
    parts = tuple(part for part in item.name.split("/") if part not in ("", "."))
    if item.name.startswith("/") or ".." in parts or "\0" in item.name or item.kind == "special file":
        problem = f"a {item.kind}" if item.kind == "special file" else "outside of its folder"
        raise RuntimeEnvSetupError(
            f"the archive {source} is not safe to unpack: its entry {item.name!r} is {problem}. Nothing was "
            "unpacked."
        )
    return parts


def _lies_in_one_folder(paths: list[tuple[_Item, tuple[str, ...]]]) -> bool:
    tops = {parts[0] for _, parts in paths}
    return len(tops) == 1 and all(len(parts) > 1 or item.kind == "folder" for item, parts in paths)
