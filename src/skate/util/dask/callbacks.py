"""Hooks of the Dask scheduler: before and after a task is submitted, before and after it runs, and at the end."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from dask.callbacks import Callback

import skate

HOOKS = (
    "ray_presubmit",
    "ray_postsubmit",
    "ray_pretask",
    "ray_posttask",
    "ray_postsubmit_all",
    "ray_finish",
)


class RayCallback(NamedTuple):
    """The hooks of one callback; None for missing ones."""

    ray_presubmit: Any = None
    ray_postsubmit: Any = None
    ray_pretask: Any = None
    ray_posttask: Any = None
    ray_postsubmit_all: Any = None
    ray_finish: Any = None


class RayDaskCallback(Callback):  # type: ignore[misc]
    """Hooks around the tasks of Dask; active within a `with`, or after `register()`.

    Hooks are given by name, or are methods of a subclass, with a leading underscore. Hooks of a task run in
    its process, the others in the driver.

    Args:
        ray_presubmit: (task, key, deps): before a task is submitted; a result other than None replaces the task's.
        ray_postsubmit: (task, key, deps, object_ref): after it was submitted.
        ray_pretask: (key, object_refs): before it runs; its result is passed to `ray_posttask`.
        ray_posttask: (key, result, pre_state): after it ran.
        ray_postsubmit_all: (object_refs, dsk): after all tasks were submitted.
        ray_finish: (result): after the results are available.
    """

    ray_active: set[RayCallback] = set()

    def __init__(self, **kwargs: Any) -> None:
        for name in HOOKS:
            hook = kwargs.pop(name, None)
            if hook is not None:
                setattr(self, f"_{name}", hook)
        super().__init__(**kwargs)

    @property
    def _ray_callback(self) -> RayCallback:
        return RayCallback(*(getattr(self, f"_{name}", None) for name in HOOKS))

    def __enter__(self) -> RayDaskCallback:
        self._ray_entered = add_ray_callbacks(self)
        self._ray_entered.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._ray_entered.__exit__(*exc)

    def register(self) -> None:
        """Use the hooks until `unregister`."""
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().register()

    def unregister(self) -> None:
        """Deactivate the hooks."""
        RayDaskCallback.ray_active.remove(self._ray_callback)
        super().unregister()


class add_ray_callbacks:  # noqa: N801 - the name that programs know
    """Use callbacks within a `with`."""

    def __init__(self, *callbacks: Any) -> None:
        self.callbacks = [normalize_ray_callback(each) for each in callbacks]
        RayDaskCallback.ray_active.update(self.callbacks)

    def __enter__(self) -> add_ray_callbacks:
        return self

    def __exit__(self, *exc: Any) -> None:
        for each in self.callbacks:
            RayDaskCallback.ray_active.discard(each)


def normalize_ray_callback(callback: Any) -> RayCallback:
    """Return the hooks of a callback as a tuple. Raises TypeError for anything else."""
    if isinstance(callback, RayDaskCallback):
        return callback._ray_callback
    if isinstance(callback, RayCallback):
        return callback
    raise TypeError(
        f"Callbacks must be either 'RayDaskCallback' or 'RayCallback' namedtuple, not {type(callback).__name__}"
    )


def hooks(callbacks: list[RayCallback]) -> dict[str, list[Any]]:
    """Return the hooks of each kind."""
    return {name: [hook for each in callbacks if (hook := getattr(each, name)) is not None] for name in HOOKS}


@contextlib.contextmanager
def local_ray_callbacks(callbacks: Any = None) -> Iterator[list[RayCallback]]:
    """Provide the callbacks for one call: the given or else the active ones, which nested calls do not inherit."""
    known = callbacks is None
    active = set(RayDaskCallback.ray_active)
    if known:
        callbacks, RayDaskCallback.ray_active = active, set()
    try:
        yield [normalize_ray_callback(each) for each in callbacks or ()]
    finally:
        if known:
            RayDaskCallback.ray_active = active


class ProgressBarCallback(RayDaskCallback):
    """Counts submitted, started and finished tasks, and prints the counts at the end."""

    def __init__(self) -> None:
        class Counts:
            def __init__(self) -> None:
                self.done: dict[Any, float] = {}
                self.started: dict[Any, float] = defaultdict(float)

            def began(self, key: Any, now: float) -> None:
                self.started[key] = now

            def ended(self, key: Any, now: float) -> None:
                self.done[key] = now - self.started[key]

            def result(self) -> tuple[int, float]:
                return len(self.done), sum(self.done.values())

        self._counts = skate.remote(num_cpus=0)(Counts).remote()
        super().__init__()

    def _ray_pretask(self, key: Any, object_refs: Any) -> None:
        self._counts.began.remote(key, time.time())

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        self._counts.ended.remote(key, time.time())

    def _ray_finish(self, result: Any) -> None:
        tasks, seconds = skate.get(self._counts.result.remote())
        print(f"{tasks} Dask tasks ran for {seconds:.1f} s in total")
