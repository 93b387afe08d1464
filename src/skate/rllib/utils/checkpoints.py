"""Checkpointable: objects that save themselves to a folder, and the pickles that Ray reads too.

Class paths are written as ``ray.rllib...`` and read as ``skate.rllib...``, so that a folder opens on both.
"""

from __future__ import annotations

import abc
import importlib
import inspect
import io
import json
import os
import pickle
import tempfile
import uuid
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import cloudpickle

from skate.rllib import __name__ as _OURS
from skate.version import RAY_VERSION

_THEIRS = "ray.rllib"
_VERSION = "2.1"
StateDict = dict[str, Any]
C = TypeVar("C", bound="Checkpointable")


def _import_module(name: str) -> Any:
    if name == _THEIRS or name.startswith(_THEIRS + "."):
        name = _OURS + name[len(_THEIRS) :]
    return importlib.import_module(name)


class _PortablePickler(cloudpickle.Pickler):
    """Writes classes of RLlib under Ray's paths."""

    def reducer_override(self, obj: Any) -> Any:
        module = getattr(obj, "__module__", None) if isinstance(obj, type) else None
        if isinstance(module, str) and module.startswith(_OURS + ".") and "<locals>" not in obj.__qualname__:
            return getattr, (_ModuleByName(_THEIRS + module[len(_OURS) :]), obj.__qualname__)
        if isinstance(obj, _ModuleByName):
            return importlib.import_module, (obj.name,)
        return super().reducer_override(obj)


class _ModuleByName:
    """A module that is imported when the pickle is read."""

    def __init__(self, name: str) -> None:
        self.name = name


class _PortableUnpickler(pickle.Unpickler):
    """Reads Ray's paths of RLlib as our own."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("importlib", "import_module"):
            return _import_module
        if module == _THEIRS or module.startswith(_THEIRS + "."):
            return getattr(_import_module(module), name)
        return super().find_class(module, name)


def dump_portable(value: Any) -> bytes:
    """Pickle a value so that Ray and Skate can read it."""
    buffer = io.BytesIO()
    _PortablePickler(buffer).dump(value)
    return buffer.getvalue()


def load_portable(data: bytes) -> Any:
    """Read a pickle that Ray or Skate wrote. A pickle can run any code: read only files that you trust."""
    return _PortableUnpickler(io.BytesIO(data)).load()


class _LocalFiles:
    """Files of this machine. A file appears whole, or not at all."""

    def write(self, path: PurePosixPath, data: bytes) -> None:
        os.makedirs(path.parent, exist_ok=True)
        half = f"{path}.{uuid.uuid4().hex[:8]}.tmp"
        with open(half, "wb") as file:
            file.write(data)
        os.replace(half, path)

    def read(self, path: PurePosixPath) -> bytes:
        return Path(path).read_bytes()

    def exists(self, path: PurePosixPath) -> bool:
        return os.path.exists(path)


class _ArrowFiles:
    """Files of a ``pyarrow.fs.FileSystem``."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def write(self, path: PurePosixPath, data: bytes) -> None:
        self._filesystem.create_dir(path.parent.as_posix(), recursive=True)
        with self._filesystem.open_output_stream(path.as_posix()) as file:
            file.write(data)

    def read(self, path: PurePosixPath) -> bytes:
        with self._filesystem.open_input_stream(path.as_posix()) as file:
            return bytes(file.read())

    def exists(self, path: PurePosixPath) -> bool:
        return self._filesystem.get_file_info(path.as_posix()).type.name != "NotFound"


_Files = _LocalFiles | _ArrowFiles


def _opened(path: str | os.PathLike[str], filesystem: Any) -> tuple[PurePosixPath, _Files]:
    if filesystem is not None:
        return PurePosixPath(path), _ArrowFiles(filesystem)
    plain = os.fspath(path)
    if "://" in plain and not plain.startswith("file://"):
        from pyarrow import fs

        remote, inside = fs.FileSystem.from_uri(plain)
        return PurePosixPath(inside), _ArrowFiles(remote)
    return PurePosixPath(os.path.abspath(plain.removeprefix("file://"))), _LocalFiles()


class Checkpointable(abc.ABC):
    """An object with state that can be saved to a folder, alone or as a part of another.

    Subclasses write ``get_state``, ``set_state`` and ``get_ctor_args_and_kwargs``; those with parts also write
    ``get_checkpointable_components``. Each part has a subfolder of its name.
    """

    STATE_FILE_NAME = "state"
    CLASS_AND_CTOR_ARGS_FILE_NAME = "class_and_ctor_args.pkl"
    METADATA_FILE_NAME = "metadata.json"

    @abc.abstractmethod
    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> StateDict:
        """Return the state.

        Args:
            components: Names of the parts to include; ``"a/b"`` is part b of part a. Default: all.
            not_components: Names of the parts to leave out.
        """

    @abc.abstractmethod
    def set_state(self, state: StateDict) -> None:
        """Take the state that ``get_state`` returned; parts that are missing stay as they are."""

    @abc.abstractmethod
    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make an equal object."""

    def get_metadata(self) -> dict[str, Any]:
        """Return what ``metadata.json`` of the folder holds."""
        return {
            "class_and_ctor_args_file": self.CLASS_AND_CTOR_ARGS_FILE_NAME,
            "state_file": self.STATE_FILE_NAME,
            "ray_version": RAY_VERSION,
            "ray_commit": "skate",
        }

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the parts that have folders of their own, by name."""
        return []

    def save_to_path(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        state: StateDict | None = None,
        filesystem: Any = None,
        use_msgpack: bool = False,
    ) -> str:
        """Save the state and what makes the object again.

        Args:
            path: The folder, made if it is missing. Default: a new temporary folder.
            state: Save this state instead of the current one.
            filesystem: A ``pyarrow.fs.FileSystem`` that has the path. Default: by the path.
            use_msgpack: Taken for compatibility; files are pickles.

        Returns:
            The path of the folder.
        """
        if path is None:
            path = os.path.join(tempfile.gettempdir(), str(uuid.uuid4()))
        folder, files = _opened(path, filesystem)
        metadata = {"checkpoint_version": _VERSION, **self.get_metadata()}
        files.write(folder / self.METADATA_FILE_NAME, json.dumps(metadata).encode())
        made = {"class": type(self), "ctor_args_and_kwargs": self.get_ctor_args_and_kwargs()}
        files.write(folder / self.CLASS_AND_CTOR_ARGS_FILE_NAME, dump_portable(made))
        parts = self.get_checkpointable_components()
        own = dict(state) if state is not None else self.get_state(not_components=[name for name, _ in parts])
        for name, part in parts:
            if state is not None and name not in state:
                continue
            part_state = own.pop(name) if state is not None else self.get_state(components=name)[name]
            part.save_to_path(str(folder / name), state=part_state, filesystem=filesystem)
        files.write(folder / f"{self.STATE_FILE_NAME}.pkl", dump_portable(own))
        return str(folder)

    def restore_from_path(
        self,
        path: str | os.PathLike[str],
        *,
        component: str | None = None,
        filesystem: Any = None,
        **kwargs: Any,
    ) -> None:
        """Take the state that was saved to a folder.

        Args:
            path: The folder.
            component: Restore only this part, for example ``"rl_module"``; the path is then the part's own folder.
            filesystem: A ``pyarrow.fs.FileSystem`` that has the path. Default: by the path.

        Raises:
            FileNotFoundError: the folder does not exist.
        """
        folder, files = _opened(path, filesystem)
        if not files.exists(folder):
            raise FileNotFoundError(f"no checkpoint at {folder}")
        before = {name for name, _ in self.get_checkpointable_components()}
        self._restore_parts(folder, files, component=component, filesystem=filesystem, **kwargs)
        if component is not None:
            return
        file = folder / f"{self.STATE_FILE_NAME}.pkl"
        if not files.exists(file):
            raise FileNotFoundError(f"the checkpoint at {folder} has no {file.name}; was saving it interrupted?")
        self.set_state(load_portable(files.read(file)))
        # The state may have made new parts, for example policies that were added during training.
        new = {name for name, _ in self.get_checkpointable_components()} - before
        if new:
            self._restore_parts(folder, files, only=new, filesystem=filesystem, **kwargs)

    def _restore_parts(
        self,
        folder: PurePosixPath,
        files: _Files,
        *,
        only: Collection[str] | None = None,
        component: str | None = None,
        filesystem: Any = None,
        **kwargs: Any,
    ) -> None:
        for name, part in self.get_checkpointable_components():
            if only is not None and name not in only:
                continue
            if component is None:
                if files.exists(folder / name):
                    part.restore_from_path(str(folder / name), filesystem=filesystem, **kwargs)
            elif component == name or component.startswith(name + "/"):
                inner = component[len(name) + 1 :] or None
                part.restore_from_path(str(folder), component=inner, filesystem=filesystem, **kwargs)

    @classmethod
    def from_checkpoint(cls: type[C], path: str | os.PathLike[str], filesystem: Any = None, **kwargs: Any) -> C:
        """Make the object that was saved to a folder.

        Args:
            path: The folder.
            filesystem: A ``pyarrow.fs.FileSystem`` that has the path. Default: by the path.
            **kwargs: Arguments of the constructor that replace saved ones.

        Returns:
            An object of the saved class, with the saved state.

        Raises:
            FileNotFoundError: the folder does not exist.
            ValueError: the saved class is no subclass of this one.
        """
        folder, files = _opened(path, filesystem)
        file = folder / cls.CLASS_AND_CTOR_ARGS_FILE_NAME
        if not files.exists(file):
            raise FileNotFoundError(f"no checkpoint of a {cls.__name__} at {folder}: {file.name} is missing")
        made = load_portable(files.read(file))
        saved, (args, named) = made["class"], made["ctor_args_and_kwargs"]
        if not issubclass(saved, cls):
            raise ValueError(f"the checkpoint at {folder} has a {saved.__name__}, which is no {cls.__name__}")
        positional, by_name, rest = list(args), dict(named), dict(kwargs)
        for index, (name, parameter) in enumerate(inspect.signature(saved).parameters.items()):
            if name not in rest:
                continue
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and index < len(positional):
                positional[index] = rest.pop(name)
            else:
                by_name[name] = rest.pop(name)
        instance = saved(*positional, **by_name)
        instance.restore_from_path(path, filesystem=filesystem, **rest)
        return instance

    @staticmethod
    def _check_component(
        name: str, components: str | Collection[str] | None, not_components: str | Collection[str] | None
    ) -> bool:
        """Return True if the part ``name`` is asked for."""
        wanted, unwanted = _as_list(components), _as_list(not_components)
        included = components is None or any(part == name or part.startswith(name + "/") for part in wanted)
        return included and (not_components is None or name not in unwanted)

    @staticmethod
    def _get_subcomponents(name: str, components: str | Collection[str] | None) -> list[str] | None:
        """Return what is asked for inside of the part ``name``; None means everything."""
        return [part[len(name) + 1 :] for part in _as_list(components) if part.startswith(name + "/")] or None


def _as_list(names: str | Iterable[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)
