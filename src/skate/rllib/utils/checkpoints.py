"""`Checkpointable`: objects whose state, and that of the objects in them, is kept in a folder."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from skate.rllib import checkpoint_folder

if TYPE_CHECKING:
    from typing_extensions import Self

Components = str | Collection[str] | None


class Checkpointable:
    """Base class of what can be saved and restored: define `get_state` and `set_state`.

    An object with others inside lists them in `get_checkpointable_components`; each gets a folder of its own.
    """

    STATE_FILE_NAME = "state"
    CLASS_AND_CTOR_ARGS_FILE_NAME = checkpoint_folder.CLASS_AND_ARGUMENTS
    METADATA_FILE_NAME = "metadata.json"

    def get_state(
        self, components: Components = None, *, not_components: Components = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state as a dict, of all components or of some.

        Args:
            components: names, or paths such as `learner_group/learner`; None for all.
            not_components: names or paths to leave out.
        """
        raise NotImplementedError(f"{type(self).__name__} must define get_state() to be saved")

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state, or the part of one that the dict has."""
        raise NotImplementedError(f"{type(self).__name__} must define set_state() to be restored")

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that make an object like this one."""
        return (), {}

    @property
    def _saved_class(self) -> Any:
        """The class that `from_checkpoint` makes an object of."""
        return type(self)

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """Return the objects inside that are saved to folders of their own, with the folders' names."""
        return []

    def get_metadata(self) -> dict[str, Any]:
        """Return the description that is saved with the state."""
        return {
            "class_and_ctor_args_file": self.CLASS_AND_CTOR_ARGS_FILE_NAME,
            "state_file": self.STATE_FILE_NAME,
            "checkpoint_version": checkpoint_folder.VERSION,
        }

    # -- folders

    def save_to_path(
        self,
        path: str | pathlib.Path | None = None,
        *,
        state: dict[str, Any] | None = None,
        filesystem: Any = None,
        use_msgpack: bool = False,
    ) -> str:
        """Save to a folder. A process that is killed meanwhile leaves the folder as it was.

        Args:
            path: a local folder or a URL; None for a new temporary folder.
            state: the state to save; None for the present one.
            filesystem: the pyarrow filesystem that the path is in.
            use_msgpack: accepted for compatibility; files are pickled.

        Returns:
            The path.
        """
        with checkpoint_folder.writing(path, filesystem) as (folder, final):
            self.write_to(folder, self.get_state() if state is None else state)
        return final

    def write_to(self, folder: pathlib.Path, state: dict[str, Any]) -> None:
        """Write a state to a folder, each component's to a folder inside."""
        folder.mkdir(parents=True, exist_ok=True)
        rest = dict(state)
        for name, component in self.get_checkpointable_components():
            if name in rest:
                component.write_to(folder / name, rest.pop(name))
        checkpoint_folder.write(folder, f"{self.STATE_FILE_NAME}.pkl", rest)
        made = {"class": self._saved_class, "ctor_args_and_kwargs": self.get_ctor_args_and_kwargs()}
        checkpoint_folder.write(folder, self.CLASS_AND_CTOR_ARGS_FILE_NAME, made)
        checkpoint_folder.write_metadata(folder, self.METADATA_FILE_NAME, self.STATE_FILE_NAME)

    def restore_from_path(
        self, path: Any, *, component: str | None = None, filesystem: Any = None, **kwargs: Any
    ) -> None:
        """Restore the state in a folder.

        Args:
            path: the folder, or a URL.
            component: the path of a component such as `learner_group/learner/rl_module`, if the folder has its state alone.
            filesystem: the pyarrow filesystem that the path is in.

        Raises:
            FileNotFoundError: there is no checkpoint at the path.
            ValueError: there is no such component.
        """
        target = self._component(component)
        with checkpoint_folder.reading(path, filesystem) as folder:
            target.read_from(folder)
        if component:
            self.component_restored(component)

    def component_restored(self, component: str) -> None:
        """Pass on what was restored of a component, to copies of it for example."""

    def read_from(self, folder: pathlib.Path) -> None:
        """Restore from a folder, and each component from the folder inside."""
        state = checkpoint_folder.read(folder, f"{self.STATE_FILE_NAME}.pkl")
        if state:
            self.set_state(state)
        for name, component in self.get_checkpointable_components():
            if (folder / name).is_dir():
                component.read_from(folder / name)

    def _component(self, path: str | None) -> Any:
        found: Any = self
        for name in (path or "").strip("/").split("/") if path else ():
            inside = dict(found.get_checkpointable_components())
            if name not in inside:
                known = ", ".join(inside) or "none"
                raise ValueError(
                    f"{type(found).__name__} has no component {name!r}; its components are: {known}"
                )
            found = inside[name]
        return found

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, **kwargs: Any) -> Self:
        """Make an object of the class that the folder has, or of this one if that cannot be imported, with its state.

        Args:
            path: the folder, or a URL.
            filesystem: the pyarrow filesystem that the path is in.
            kwargs: arguments of the class that replace the saved ones.

        Raises:
            FileNotFoundError: there is no checkpoint at the path.
            ValueError: it is of another class.
        """
        with checkpoint_folder.reading(path, filesystem) as folder:
            try:
                kind, args, saved = checkpoint_folder.class_in(folder)
            except (AttributeError, ImportError):  # the class was moved or renamed since
                kind, args, saved = cls, (), {}
            if not issubclass(kind, cls):
                raise ValueError(
                    f"the checkpoint at {folder} is of a {kind.__name__}, not of a {cls.__name__}; an algorithm's "
                    "modules are in learner_group/learner/rl_module/<module id>"
                )
            made = kind(*args, **{**saved, **kwargs})
            made.read_from(folder)
        return made  # type: ignore[no-any-return]  # the class is only known from the file

    @staticmethod
    def _check_component(name: str, components: Components, not_components: Components) -> bool:
        """True if a component is among the wanted ones."""
        wanted, left_out = _paths(components), _paths(not_components)
        if left_out is not None and name in left_out:
            return False
        return wanted is None or any(path == name or path.startswith(name + "/") for path in wanted)

    @staticmethod
    def _get_subcomponents(name: str, components: Components) -> Components:
        """Return the paths below a component, without its name; None for all."""
        below = [path[len(name) + 1 :] for path in _paths(components) or [] if path.startswith(name + "/")]
        return below or None


def _paths(components: Components) -> list[str] | None:
    if components is None:
        return None
    return [components] if isinstance(components, str) else list(components)


def get_checkpoint_info(checkpoint: Any, filesystem: Any = None) -> dict[str, Any]:
    """Return what kind of checkpoint a folder has.

    Args:
        checkpoint: The folder, a URL or a `Checkpoint`; also one that Ray wrote, of its older versions as well.
        filesystem: The pyarrow filesystem that the path is in.

    Returns:
        A dict with ``type`` (``"Algorithm"``, or ``"Policy"`` of the old API stack), ``format``, ``checkpoint_version`` as
        text, ``checkpoint_dir``, ``state_file``, ``policy_ids``, ``module_ids``, and what the folder says of itself.

    Raises:
        FileNotFoundError: There is no folder.
        ValueError: The folder is not such a checkpoint.
    """
    with checkpoint_folder.reading(checkpoint, filesystem) as folder:
        names = {each.name for each in folder.iterdir()}
        info: dict[str, Any] = {
            "type": "Algorithm",
            "format": "cloudpickle",
            "checkpoint_version": checkpoint_folder.VERSION,
            "checkpoint_dir": str(folder),
            "state_file": None,
            "policy_ids": None,
            "module_ids": None,
        }
        oldest = sorted(name for name in names if re.fullmatch(r"checkpoint-\d+", name))
        if oldest:
            return info | {"checkpoint_version": "0.1", "state_file": oldest[0]}
        if "rllib_checkpoint.json" in names:
            info |= json.loads((folder / "rllib_checkpoint.json").read_text())
        kinds = {"policy_state": "Policy", "algorithm_state": "Algorithm"}
        found = [
            (stem, ending)
            for stem in kinds
            for ending in ("pkl", "msgpck", "msgpack")
            if f"{stem}.{ending}" in names
        ]
        if not found:
            raise ValueError(
                f"{folder} is not a checkpoint of an algorithm: it has no algorithm_state file; it has "
                f"{', '.join(sorted(names)) or 'nothing'}"
            )
        stem, ending = found[0]
        info["type"], info["format"] = kinds[stem], "cloudpickle" if ending == "pkl" else "msgpack"
        info["state_file"] = str(folder / f"{stem}.{ending}")
        if info["type"] == "Algorithm":
            for key, inside in (
                ("policy_ids", "policies"),
                ("module_ids", "learner_group/learner/rl_module"),
            ):
                if (folder / inside).is_dir():
                    info[key] = {each.name for each in (folder / inside).iterdir() if each.is_dir()}
        return info
