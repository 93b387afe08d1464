"""Calls of callbacks: the methods of objects first, then single functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skate import cloudpickle
from skate.rllib.callbacks.callbacks import RLlibCallback

#: Moments for which an env runner has to have an episode object at hand.
EPISODE_MOMENTS = (
    "on_episode_created",
    "on_episode_start",
    "on_episode_step",
    "on_episode_end",
    "on_sample_end",
)
_EPISODE_FUNCTIONS = tuple(f"callbacks_{moment}" for moment in EPISODE_MOMENTS)


def as_list(value: Any) -> list[Any]:
    """Return None as an empty list, and a single thing as a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def make_callback(
    callback_name: str,
    callbacks_objects: Sequence[Any] | Any = None,
    callbacks_functions: Sequence[Callable[..., Any]] | Callable[..., Any] | None = None,
    *,
    args: Iterable[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> None:
    """Run one moment of all callbacks, in order.

    Args:
        callback_name: Name of the method.
        callbacks_objects: One callback object or a list of them.
        callbacks_functions: One function or a list of them.
        args: Positional arguments.
        kwargs: Keyword arguments.
    """
    positional, named = list(args or ()), kwargs or {}
    for each in as_list(callbacks_objects):
        getattr(each, callback_name)(*positional, **named)
    for function in as_list(callbacks_functions):
        function(*positional, **named)


def _can_be_pickled(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # a value may refuse in any way
        return False
    return True


class Callbacks(Sequence[Any]):
    """The callbacks of one process, as a config names them; as a sequence the objects.

    Args:
        config: The algorithm's config; read are ``callbacks_class`` and ``callbacks_on_...``.
    """

    def __init__(self, config: Any) -> None:
        self._config = config
        self.objects = [made() for made in as_list(getattr(config, "callbacks_class", None))]

    def __getitem__(self, index: Any) -> Any:
        return self.objects[index]

    def __len__(self) -> int:
        return len(self.objects)

    def functions(self, moment: str) -> list[Callable[..., Any]]:
        """Return the single functions for one moment."""
        return as_list(getattr(self._config, f"callbacks_{moment}", None))

    def has(self, moment: str) -> bool:
        """True if anything happens at a moment."""
        base = getattr(RLlibCallback, moment)
        return bool(self.functions(moment)) or any(
            getattr(type(each), moment, base) is not base for each in self.objects
        )

    @property
    def watch_episodes(self) -> bool:
        """True if anything happens at a moment for which an episode object has to be at hand."""
        if any(getattr(self._config, name, None) for name in _EPISODE_FUNCTIONS):
            return True
        if all(type(each) is RLlibCallback for each in self.objects):
            return False
        return any(map(self.has, EPISODE_MOMENTS))

    def calls(self, moment: str) -> list[Callable[..., Any]]:
        """Return what is called at a moment, in order; nothing if no object does anything then."""
        if not self.has(moment):
            return []
        return [*(getattr(each, moment) for each in self.objects), *self.functions(moment)]

    def get_state(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what objects that follow episodes have noted of them, by the names of their classes.

        Attributes that cannot be pickled, such as open files, are left out.
        """
        if not any(map(self.has, EPISODE_MOMENTS)):
            return []
        return [
            (
                type(each).__qualname__,
                {name: value for name, value in vars(each).items() if _can_be_pickled(value)},
            )
            for each in self.objects
        ]

    def set_state(self, state: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Take what `get_state` returned; objects of other classes are left as they are."""
        for each, (kind, noted) in zip(self.objects, state, strict=False):
            if type(each).__qualname__ == kind:
                vars(each).update(noted)

    def run(self, moment: str, **kwargs: Any) -> None:
        """Run all callbacks for one moment."""
        for call in self.calls(moment):
            call(**kwargs)
