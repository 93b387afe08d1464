"""Callbacks of a search: the hooks in use, and validation of the user's callbacks."""

from __future__ import annotations

import glob
import os
import pickle
import warnings
from collections.abc import Sequence
from typing import Any

from skate.air.callback import Callback
from skate.air.named_callbacks import named_callbacks
from skate.tune.constants import RAY_TUNE_CALLBACKS_ENV_VAR

__all__ = [
    "HOOKS",
    "Callback",
    "CallbackList",
    "callbacks_of_environment",
    "checked_callbacks",
    "hooks_of",
    "set_up",
]

#: The hooks that the machine of a search calls, if a callback defines them.
HOOKS = (
    "on_step_begin",
    "on_step_end",
    "on_trial_start",
    "on_trial_restore",
    "on_trial_save",
    "on_trial_result",
    "on_trial_complete",
    "on_trial_recover",
    "on_trial_error",
    "on_checkpoint",
)


class CallbackList(Callback):
    """Several callbacks as one: calls each hook on all of them, in order."""

    IS_CALLBACK_CONTAINER = True
    CKPT_FILE_TMPL = "callback-states-{}.pkl"

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self._callbacks = checked_callbacks(callbacks)

    def setup(self, *args: Any, **info: Any) -> None:
        """Call `setup` of all."""
        set_up(
            self._callbacks,
            **dict(zip(("stop", "num_samples", "total_num_samples"), args, strict=False)),
            **info,
        )

    def get_state(self) -> dict[int, Any] | None:
        """The state of each callback by its position; None if none has a state."""
        states = {place: each.get_state() for place, each in enumerate(self._callbacks)}
        return states if any(states.values()) else None

    def set_state(self, state: dict[int, Any]) -> None:
        """Restore the state from `get_state`."""
        for place, each in enumerate(self._callbacks):
            if state.get(place):
                each.set_state(state[place])

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Save the state in a folder, if there is any."""
        state = self.get_state()
        if state:
            path = os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str))
            with open(f"{path}.tmp", "wb") as file:
                pickle.dump(state, file)
            os.replace(f"{path}.tmp", path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Load the newest state that `save_to_dir` has written to a folder.

        Raises:
            RuntimeError: there is none.
        """
        found = self._saved(checkpoint_dir)
        if not found:
            raise RuntimeError(
                f"Unable to find checkpoint in {checkpoint_dir}: save_to_dir has not written one there"
            )
        with open(max(found, key=os.path.getmtime), "rb") as file:
            self.set_state(pickle.load(file))

    def can_restore(self, checkpoint_dir: str) -> bool:
        """Return True if a folder has a state that `save_to_dir` has written."""
        return bool(self._saved(checkpoint_dir))

    def _saved(self, folder: str) -> list[str]:
        return glob.glob(os.path.join(folder, self.CKPT_FILE_TMPL.format("*")))


def _on_all(hook: str) -> Any:
    def call(self: CallbackList, **info: Any) -> None:
        for each in self._callbacks:
            getattr(each, hook)(**info)

    call.__name__, call.__doc__ = hook, f"Call `{hook}` of all."
    return call


for _hook in (*HOOKS, "on_experiment_end"):
    setattr(CallbackList, _hook, _on_all(_hook))


def set_up(callbacks: Sequence[Any], **info: Any) -> None:
    """Call `setup` of callbacks; one that takes no arguments is called without them, with a warning."""
    for each in callbacks:
        try:
            each.setup(**info)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            warnings.warn(
                f"Please update `setup` method in callback `{type(each)}` to match the method signature in "
                f"`ray.tune.callback.Callback`: {error}",
                FutureWarning,
                stacklevel=2,
            )
            each.setup()


def hooks_of(callbacks: Sequence[Any]) -> frozenset[str]:
    """Return the hooks that any of the callbacks defines."""
    return frozenset(
        hook
        for hook in HOOKS
        if any(_function(type(callback), hook) is not _function(Callback, hook) for callback in callbacks)
    )


def _function(kind: type, hook: str) -> Any:
    return getattr(kind, hook, None)


def checked_callbacks(callbacks: Any) -> list[Any]:
    """Return the user's callbacks, checked.

    Raises:
        TypeError: one is not a callback.
    """
    found = list(callbacks or ())
    for each in found:
        if isinstance(each, type) or not hasattr(each, "on_trial_result"):
            raise TypeError(f"callbacks must be instances of ray.tune.Callback, got {each!r:.80}")
    return found


def callbacks_of_environment() -> list[Callback]:
    """Create the callbacks that `RAY_TUNE_CALLBACKS` names: import paths of classes, separated by commas.

    Raises:
        ValueError: a class cannot be imported, or is not a callback.
    """
    return named_callbacks(RAY_TUNE_CALLBACKS_ENV_VAR, Callback, "ray.tune.Callback")
