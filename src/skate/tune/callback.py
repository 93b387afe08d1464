"""Callbacks of a search: the hooks in use, and validation of the user's callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.air.callback import Callback

__all__ = ["HOOKS", "Callback", "CallbackList", "checked_callbacks", "hooks_of"]

#: The hooks that the machine of a search tells of, if anyone listens.
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


class CallbackList:
    """Several callbacks as one: calls each hook on all of them, in order."""

    def __init__(self, callbacks: Sequence[Any]) -> None:
        self._callbacks = checked_callbacks(callbacks)

    def __getattr__(self, hook: str) -> Any:
        if hook not in (*HOOKS, "setup", "on_experiment_end"):
            raise AttributeError(f"a callback has no hook {hook!r}; it has {', '.join(HOOKS)}")

        def call(*args: Any, **info: Any) -> None:
            for each in self._callbacks:
                getattr(each, hook)(*args, **info)

        return call

    def get_state(self) -> dict[str, Any] | None:
        """The state of each callback by its position; None if none has a state."""
        states = {str(place): each.get_state() for place, each in enumerate(self._callbacks)}
        kept = {place: state for place, state in states.items() if state is not None}
        return kept or None

    def set_state(self, state: dict[str, Any]) -> None:
        """Take back what `get_state` gave."""
        for place, each in enumerate(self._callbacks):
            if str(place) in state:
                each.set_state(state[str(place)])


def hooks_of(callbacks: Sequence[Any]) -> frozenset[str]:
    """The hooks that any of the callbacks listens to."""
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
