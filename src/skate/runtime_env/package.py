"""Packaging of a local folder for a worker: the files to include, and the archive.

The name of an archive is a hash of its contents (paths, data, executable bits), not of times, owners or the
bytes of the archive itself, which depend on the compression library. Two folders with the same files are the
same package.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import IO

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.ignore import DEFAULTS, Rules, ignored, parse

LIMIT_BYTES = 512 * 1024**2
# No realistic package compresses better than this, so larger ones are rejected without reading all files.
_BEST_COMPRESSION = 8
_CHUNK_BYTES = 1024**2
_EPOCH = (1980, 1, 1, 0, 0, 0)
# A file changed this recently may change again without a new time, so its hash is not cached.
_SETTLED_AFTER_NS = 2_000_000_000
_REMEMBERED_HASHES = 100_000


@dataclass(frozen=True, slots=True)
class Member:
    """One file or empty folder of a package."""

    name: str  # relative, with slashes, and a trailing one for a folder
    source: str
    size_bytes: int
    changed_ns: int
    inode: int
    executable: bool


def members(root: str, excludes: Sequence[str] = ()) -> list[Member]:
    """List the files and empty folders of a folder to ship, sorted by name, following links."""
    # .rayignore is read only at the root; it applies to everything below and takes precedence over any .gitignore.
    own = parse([*_lines(root, ".rayignore"), *excludes])
    found = _walk(root, "", (parse(DEFAULTS),), own, frozenset({os.path.realpath(root)}))
    return sorted(found, key=lambda member: member.name)


def module_members(path: str, excludes: Sequence[str] = ()) -> list[Member]:
    """List the files of a module to ship: a .py file, or a folder under the name by which it is imported."""
    name = os.path.basename(os.path.normpath(path))
    if not os.path.isdir(path):
        return [_member(name, path, os.stat(path))]
    inside = members(path, excludes)
    return [replace(member, name=f"{name}/{member.name}") for member in inside]


def _walk(
    folder: str, prefix: str, inherited: tuple[Rules, ...], own: Rules, above: frozenset[str]
) -> Iterator[Member]:
    rules = (*inherited, parse(_lines(folder, ".gitignore"), prefix.rstrip("/")))
    empty = True
    with os.scandir(folder) as items:
        entries = sorted(items, key=lambda item: item.name)
    for item in entries:
        name = f"{prefix}{item.name}"
        try:
            status = item.stat()
        except OSError:
            continue  # a broken or circular link, or a file deleted meanwhile
        is_folder = stat.S_ISDIR(status.st_mode)
        if ignored(name, is_folder, (*rules, own)):
            continue
        if stat.S_ISREG(status.st_mode):
            empty = False
            yield _member(name, item.path, status)
        elif is_folder:
            real = os.path.realpath(item.path)
            if real in above:
                continue  # a link to a parent folder: following it would never end
            empty = False
            yield from _walk(item.path, name + "/", rules, own, above | {real})
    if empty and prefix:
        yield Member(prefix, folder, 0, 0, 0, False)


def _lines(folder: str, name: str) -> list[str]:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
        return file.readlines()


def _member(name: str, source: str, status: os.stat_result) -> Member:
    executable = bool(status.st_mode & stat.S_IXUSR)
    return Member(name, source, status.st_size, status.st_mtime_ns, status.st_ino, executable)


def content_hash(listed: Sequence[Member]) -> str:
    """Return the hash of a package's contents, 32 hex digits; unchanged files are not read again."""
    return _hash_of((member, _file_hash(member)) for member in listed)


def _hash_of(hashed: Iterator[tuple[Member, str]]) -> str:
    total = hashlib.sha256(b"skate package 1\n")
    for member, digest in hashed:
        name = member.name.encode("utf-8", "surrogateescape")
        total.update(b"%d %d %s %s\n" % (len(name), member.executable, name, digest.encode()))
    return total.hexdigest()[:32]


_hashes: dict[tuple[str, int, int, int], str] = {}


def _file_hash(member: Member) -> str:
    if member.name.endswith("/"):
        return "folder"
    key = (member.source, member.size_bytes, member.changed_ns, member.inode)
    known = _hashes.get(key)
    if known is not None:
        return known
    digest = hashlib.sha256()
    with _opened(member) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return _remember(key, digest.hexdigest())


def _remember(key: tuple[str, int, int, int], digest: str) -> str:
    if time.time_ns() - key[2] > _SETTLED_AFTER_NS:
        if len(_hashes) >= _REMEMBERED_HASHES:
            _hashes.clear()
        _hashes[key] = digest
    return digest


def _opened(member: Member) -> FileIO:
    try:
        return open(member.source, "rb", buffering=0)
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"{member.source} is to be shipped but cannot be read: {error.strerror}. Make it readable, or "
            "name it in "
            "runtime_env={'excludes': [...]}."
        ) from error


def pack(listed: Sequence[Member], target: Path, what: str, limit_bytes: int = LIMIT_BYTES) -> str:
    """Write the archive of a package to `target`; return the hash of the written contents.

    `what` names the field and the folder in the error for an archive larger than limit_bytes.
    """
    if sum(member.size_bytes for member in listed) > limit_bytes * _BEST_COMPRESSION:
        raise _too_large(listed, what, limit_bytes)

    def written(archive: zipfile.ZipFile, file: IO[bytes]) -> Iterator[tuple[Member, str]]:
        for member in listed:
            yield member, _write(member, archive)
            if file.tell() > limit_bytes:
                raise _too_large(listed, what, limit_bytes)

    with (
        open(target, "wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        return _hash_of(written(archive, file))


def _write(member: Member, archive: zipfile.ZipFile) -> str:
    try:
        member.name.encode()
    except UnicodeEncodeError as error:
        raise RuntimeEnvSetupError(
            f"{member.name!r} is to be shipped, but its name is not UTF-8. Rename it, or leave it out with "
            "excludes."
        ) from error
    info = zipfile.ZipInfo(member.name, _EPOCH)
    info.create_system = 3  # Unix, for any platform
    if member.name.endswith("/"):
        info.external_attr = (stat.S_IFDIR | 0o755) << 16 | 0x10
        archive.writestr(info, b"")
        return "folder"
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | (0o755 if member.executable else 0o644)) << 16
    digest = hashlib.sha256()
    large = member.size_bytes >= 2**31 - 1
    with _opened(member) as source, archive.open(info, "w", force_zip64=large) as out:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _too_large(listed: Sequence[Member], what: str, limit_bytes: int) -> RuntimeEnvSetupError:
    biggest = sorted(listed, key=lambda member: -member.size_bytes)[:5]
    lines = "".join(f"\n  {mib(member.size_bytes):>10}  {member.name}" for member in biggest)
    total = sum(member.size_bytes for member in listed)
    return RuntimeEnvSetupError(
        f"{what} is larger than a package may be: {len(listed)} files of {mib(total)} in all, which do not "
        "fit into "
        f"an archive of {mib(limit_bytes)}. Leave out what the workers do not need with "
        "runtime_env={'excludes': [...]} or a .gitignore, and put data where workers can read it. The "
        "largest files:"
        f"{lines}"
    )


def mib(size_bytes: int) -> str:
    """Format a size."""
    if size_bytes < 1024**2:
        return f"{size_bytes / 1024:.1f} KiB"
    return f"{size_bytes / 1024**2:.1f} MiB"
