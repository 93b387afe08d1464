"""A checkpoint's folder: written beside its place and moved there whole.

While an older checkpoint is replaced it is kept under another name, so that a process that is killed at any moment leaves
one whole checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from skate.rllib import checkpoint_pickles
from skate.train.checkpoint import Checkpoint
from skate.train.storage import filesystem as files
from skate.version import RAY_VERSION

VERSION = "2.1"
CLASS_AND_ARGUMENTS = "class_and_ctor_args.pkl"
_PREVIOUS = ".previous"


def read(folder: str | pathlib.Path, name: str) -> Any:
    """Return the value in a pickled file of a folder.

    Raises:
        FileNotFoundError: there is no such file.
    """
    return checkpoint_pickles.loads((pathlib.Path(folder) / name).read_bytes())


def write(folder: str | pathlib.Path, name: str, value: Any) -> None:
    """Write a value to a file of a folder, functions and classes of a script by value."""
    (pathlib.Path(folder) / name).write_bytes(checkpoint_pickles.dumps(value))


def write_metadata(folder: str | pathlib.Path, name: str, state_file: str) -> None:
    """Write the file that describes a folder."""
    found = {
        "class_and_ctor_args_file": CLASS_AND_ARGUMENTS,
        "state_file": state_file,
        "ray_version": RAY_VERSION,
        "ray_commit": "skate",
        "checkpoint_version": VERSION,
    }
    (pathlib.Path(folder) / name).write_text(json.dumps(found))


@contextlib.contextmanager
def writing(path: str | pathlib.Path | None, filesystem: Any = None) -> Iterator[tuple[pathlib.Path, str]]:
    """Provide a new folder to write to, which becomes the checkpoint at the end of the block.

    Args:
        path: where the checkpoint goes, a local folder or a URL; None for a new temporary folder.
        filesystem: the pyarrow filesystem that the path is in.

    Yields:
        The folder to write to, and the path of the checkpoint.
    """
    final = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="rllib_checkpoint_")
    if filesystem is not None or not files.is_local(final):
        with tempfile.TemporaryDirectory(prefix="rllib_checkpoint_") as folder:
            yield pathlib.Path(folder), final
            if filesystem is None:
                filesystem, final = files.resolve(final)
            files.upload(folder, filesystem, final)
        return
    final = files.local_path(final)
    parent = os.path.dirname(final)
    os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=f".{os.path.basename(final)}.writing-", dir=parent)
    try:
        yield pathlib.Path(folder), final
        _sync(folder)
        _move(folder, final)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sync(folder: str) -> None:
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                os.fsync(file.fileno())


def _move(folder: str, final: str) -> None:
    os.chmod(folder, 0o755)
    kept = final + _PREVIOUS
    if os.path.isdir(final) and os.listdir(final):
        shutil.rmtree(kept, ignore_errors=True)
        os.rename(final, kept)
    os.rename(folder, final)  # over an empty folder as well
    shutil.rmtree(kept, ignore_errors=True)


@contextlib.contextmanager
def reading(path: Any, filesystem: Any = None) -> Iterator[pathlib.Path]:
    """Provide the files of a checkpoint as a local folder within the block.

    Args:
        path: a folder, a URL, a `Checkpoint`, or what `save` returned.
        filesystem: the pyarrow filesystem that the path is in.

    Raises:
        FileNotFoundError: there is no checkpoint at the path.
    """
    given = getattr(path, "checkpoint", path)
    checkpoint = given if isinstance(given, Checkpoint) else Checkpoint(given, filesystem)
    if not checkpoint._local:
        with checkpoint.as_directory() as folder:
            yield pathlib.Path(folder)
        return
    found = pathlib.Path(checkpoint.path)
    if not found.is_dir() and pathlib.Path(checkpoint.path + _PREVIOUS).is_dir():
        found = pathlib.Path(checkpoint.path + _PREVIOUS)
    if not found.is_dir():
        raise FileNotFoundError(
            f"there is no checkpoint at {found}; save_to_path() returns the path of the one it writes"
        )
    yield found


def class_in(folder: pathlib.Path) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the class of the object in a folder, and the arguments that it was made with.

    Raises:
        AttributeError: the class is not where it was.
        ImportError: its module is not there, or the file is of another version of Python.
        ValueError: the folder is not a checkpoint, or its class is not available.
    """
    if not (folder / CLASS_AND_ARGUMENTS).exists():
        inside = ", ".join(sorted(each.name for each in folder.iterdir())) or "nothing"
        raise ValueError(f"{folder} is not a checkpoint: it has no {CLASS_AND_ARGUMENTS}; it has {inside}")
    try:
        found = read(folder, CLASS_AND_ARGUMENTS)
    except ValueError as error:
        raise ImportError(f"the class of the checkpoint at {folder} cannot be read here: {error}") from error
    kind = found["class"]
    if not checkpoint_pickles.is_available(kind):
        raise ValueError(f"the checkpoint at {folder} is of a {kind.name}, which is not available")
    args, kwargs = found["ctor_args_and_kwargs"]
    return kind, tuple(args), dict(kwargs)
