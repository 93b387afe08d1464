"""Working directories and modules on the node: packed, unpacked, and made available to workers.

A working directory is unpacked separately for each process that hosts a node, because workers write to it;
modules are only read, and their trees are shared.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skate.exceptions import RuntimeEnvSetupError
from skate.runtime_env.archives import unpack
from skate.runtime_env.cache import Cache
from skate.runtime_env.deadline import Deadline
from skate.runtime_env.fields import IN_PLACE, protocol_of
from skate.runtime_env.identity import path_hash
from skate.runtime_env.package import LIMIT_BYTES, Member, content_hash, members, mib, module_members, pack
from skate.runtime_env.package_uri import KIND, SCHEME, cache_key, name_of, uri_of
from skate.runtime_env.remote import fetch, file_path, shown_uri

Note = Callable[[Path], Path]
#: Fetches a package from another node into a file: its name, the file, the deadline.
FetchPackage = Callable[[str, Path, Deadline], None]
_TRIES = 3


class _ChangedMeanwhile(Exception):
    """Files changed between listing and packing."""


def frozen_fields(env: dict[str, Any], cache: Cache, deadline: Deadline, note: Note) -> dict[str, Any]:
    """Return the environment with local folders and .py files replaced by their packages in the cache."""
    done = dict(env)
    excludes = env.get("excludes") or ()
    working_dir = env.get("working_dir")
    if working_dir and not protocol_of(working_dir) and not working_dir.endswith(".zip"):
        what = f"runtime_env['working_dir'] = {working_dir!r}"
        package = _package(lambda: _listed(members, working_dir, excludes, what), what, cache, deadline)
        done["working_dir"] = str(note(package))
    if env.get("py_modules"):
        done["py_modules"] = [
            _frozen_module(item, at, excludes, cache, deadline, note)
            for at, item in enumerate(env["py_modules"])
        ]
    return done


def _frozen_module(
    item: str, at: int, excludes: Sequence[str], cache: Cache, deadline: Deadline, note: Note
) -> str:
    if protocol_of(item) or (item.endswith((".whl", ".zip")) and not os.path.isdir(item)):
        return item
    what = f"runtime_env['py_modules'][{at}] = {item!r}"
    package = _package(lambda: _listed(module_members, item, excludes, what), what, cache, deadline)
    return str(note(package))


def _listed(
    lister: Callable[[str, Sequence[str]], list[Member]], path: str, excludes: Sequence[str], what: str
) -> list[Member]:
    try:
        return lister(path, excludes)
    except OSError as error:
        raise RuntimeEnvSetupError(f"{what} cannot be read: {error.filename}: {error.strerror}.") from error


def _package(listed: Callable[[], list[Member]], what: str, cache: Cache, deadline: Deadline) -> Path:
    for _ in range(_TRIES):
        found = listed()
        key = content_hash(found)

        def build(path: Path, found: list[Member] = found, key: str = key) -> None:
            if pack(found, path, what) != key:
                raise _ChangedMeanwhile

        try:
            return cache.entry(KIND, f"{key}.zip", build, deadline)
        except _ChangedMeanwhile:
            deadline.check(f"packing {what}")
    raise RuntimeEnvSetupError(
        f"{what} kept changing while it was packed. Exclude the files being written, with "
        "runtime_env={'excludes': [...]}."
    )


def shared_fields(env: dict[str, Any], cache: Cache, deadline: Deadline, note: Note) -> dict[str, Any]:
    """Return the environment with local folders and files replaced by URIs of their packages, valid on any node."""
    done = frozen_fields(env, cache, deadline, note)
    if done.get("working_dir"):
        done["working_dir"] = _shared(done["working_dir"], "['working_dir']", cache, deadline, note)
    if done.get("py_modules"):
        done["py_modules"] = [
            _shared(item, f"['py_modules'][{at}]", cache, deadline, note)
            for at, item in enumerate(done["py_modules"])
        ]
    return done


def _shared(source: str, field: str, cache: Cache, deadline: Deadline, note: Note) -> str:
    if protocol_of(source):
        return source
    package = Path(source)
    if package.parent != cache.root / KIND:
        package = _copied(package, f"runtime_env{field} = {source!r}", cache, deadline, note)
    return uri_of(package)


def _copied(archive: Path, what: str, cache: Cache, deadline: Deadline, note: Note) -> Path:
    """Return the package of an archive of the user."""
    try:
        size = archive.stat().st_size
        if size > LIMIT_BYTES:
            raise RuntimeEnvSetupError(
                f"{what} has {mib(size)}, more than a package may have, {mib(LIMIT_BYTES)}. Leave out what the workers do "
                "not need, and put data where workers can read it."
            )
        key = f"{path_hash(str(archive))}.zip"
        return note(cache.entry(KIND, key, lambda path: _copy(archive, path), deadline))
    except OSError as error:
        raise RuntimeEnvSetupError(f"{what} cannot be read: {error.strerror or error}.") from error


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def working_tree(
    source: str, cache: Cache, deadline: Deadline, note: Note, fetch_package: FetchPackage | None = None
) -> str:
    """Return the folder in which workers start, created from a package, a .zip file or a URI."""
    if protocol_of(source) == IN_PLACE:
        return _in_place(source, "working_dir")
    archive, lift = _archive(source, cache, deadline, note, fetch_package)
    key = f"{_archive_key(archive, cache)}{'l' if lift else ''}~{cache.session}"
    return str(note(_tree("work", key, archive, source, lift, cache, deadline)))


def module_paths(
    sources: Sequence[str],
    cache: Cache,
    deadline: Deadline,
    note: Note,
    fetch_package: FetchPackage | None = None,
) -> list[str]:
    """Return the folders to import modules from, created from packages, wheels, .zip files or URIs."""
    paths: list[str] = []
    for source in sources:
        if protocol_of(source) == IN_PLACE:
            # A module's folder is imported by its name from its parent folder.
            paths.append(os.path.dirname(_in_place(source, "py_modules")))
            continue
        archive, lift = _archive(source, cache, deadline, note, fetch_package)
        lift = lift and not source.split("?")[0].endswith(".whl")
        key = f"{_archive_key(archive, cache)}{'l' if lift else ''}"
        tree = note(_tree("modules", key, archive, source, lift, cache, deadline))
        paths.append(str(tree))
        # A wheel may keep its modules one level down, in name.data/purelib or name.data/platlib.
        paths += [str(path) for path in sorted(tree.glob("*.data/*lib")) if path.is_dir()]
    return list(dict.fromkeys(paths))


def _in_place(source: str, field: str) -> str:
    path = os.path.normpath(file_path(source))
    if not os.path.isdir(path):
        raise RuntimeEnvSetupError(
            f"runtime_env[{field!r}] names {source}, but this machine has no folder {path}. A local:// URI is "
            "used in place; the folder must exist on every machine."
        )
    return path


def _archive(
    source: str, cache: Cache, deadline: Deadline, note: Note, fetch_package: FetchPackage | None
) -> tuple[Path, bool]:
    """Return the archive of `source`, and True if its single folder is to be dropped."""
    if not protocol_of(source):
        if not os.path.isfile(source):
            raise RuntimeEnvSetupError(
                f"the archive {source} existed when it was requested, but does not any more."
            )
        return Path(source), False
    if protocol_of(source) == SCHEME:
        name = name_of(source)

        def build(path: Path) -> None:
            if fetch_package is None:
                raise RuntimeEnvSetupError(
                    f"{source} is a package of a cluster, but this process belongs to none. Use the folder itself, or a "
                    "URI that can be read from here (https, s3, gs, file)."
                )
            fetch_package(name, path, deadline)

        # Named by its contents, so it is the same for every program.
        return note(cache.entry(KIND, cache_key(name), build, deadline)), False
    # The contents of a URI can change, so a download is used only by this process.
    key = f"{hashlib.sha256(source.encode()).hexdigest()[:32]}~{cache.session}"
    return note(cache.entry("downloads", key, lambda path: fetch(source, path, deadline), deadline)), True


def _archive_key(archive: Path, cache: Cache) -> str:
    if archive.parent == cache.root / KIND:
        return archive.stem
    return hashlib.sha256(path_hash(str(archive)).encode()).hexdigest()[:32]


def _tree(
    kind: str, key: str, archive: Path, source: str, lift: bool, cache: Cache, deadline: Deadline
) -> Path:
    shown = shown_uri(source) if protocol_of(source) else source

    def build(path: Path) -> None:
        deadline.check(f"unpacking {shown}")
        unpack(archive, path, source=shown, lift_single_folder=lift)

    return cache.entry(kind, key, build, deadline)
