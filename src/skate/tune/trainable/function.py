"""Functions as trainables: the function runs in a thread, and each of its reports is one step.

A report passes its metrics on and waits, so that the scheduler decides before the function continues.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.tune.error import TrialEnded
from skate.tune.trainable import session
from skate.tune.trainable.trainable import Trainable

#: Names of files that older versions of Ray left in folders of checkpoints.
NULL_MARKER = ".null_marker"
TEMP_MARKER = ".temp_marker"
#: The time limit for a stopped function to end, in seconds.
_END_SECONDS = 10.0


class FunctionTrainable(Trainable):
    """A trainable that runs a function; `wrap_function` creates one."""

    function: Callable[..., Any]

    def setup(self, config: dict[str, Any]) -> None:
        """Clear the state; the function starts with the first step."""
        self._clear()

    def _clear(self) -> None:
        self._thread: threading.Thread | None = None
        self._come = threading.Lock()  # held until the function reports or ends
        self._go = threading.Lock()  # held until the function may continue
        self._come.acquire()
        self._go.acquire()
        self._reported: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self._over = False
        self._ending = False
        self._last: dict[str, Any] = {}
        spec = session.spec()
        self._next_checkpoint = spec.next_checkpoint if spec else 0

    @property
    def over(self) -> bool:
        """True once the function has ended."""
        return self._over

    def step(self) -> dict[str, Any]:
        """Let the function run to its next report; once it has ended, repeat its last report with "done".

        Raises:
            Exception: the error of the function, unchanged.
        """
        if self._thread is None:
            context = contextvars.copy_context()
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="trial", daemon=True)
            self._thread.start()
        elif not self._over:
            self._go.release()
        if not self._over:
            self._come.acquire()
        if self._reported is not None:
            found, self._reported = self._reported, None
            return found
        if self._error is not None:
            raise self._error
        return {**self._last, "done": True, "__duplicate__": True}

    def train(self) -> dict[str, Any]:
        """Run one step like any trainable; the end of the function is not an additional iteration."""
        started = time.monotonic()
        result = self.step()
        if result.pop("__duplicate__", False):
            if not self._iteration:
                self._auto_fill(result, 0.0)
                for name in ("training_iteration", "time_this_iter_s", "time_total_s", "time_since_restore"):
                    result.pop(name, None)
                result.pop("iterations_since_restore", None)
            result["done"] = True
            result["__duplicate__"] = True
            return result
        took = result.get("time_this_iter_s") or time.monotonic() - started
        self._iteration += 1
        self._since_restore += 1
        self._time_total += took
        self._time_since_restore += took
        result.pop("timestamp", None)  # the time of the report
        self._auto_fill(result, took)
        self._last = result
        return result

    # -- in the function's thread

    def _run(self) -> None:
        try:
            value = self.function(self.config)
            if inspect.isgenerator(value):
                for each in value:
                    if each is not None:
                        self.reported(_metrics(each), None)
            elif value is not None and not self._ending:
                # Nothing runs after it, so that no further step is needed to learn that the function has ended.
                self._reported = {**_metrics(value), "checkpoint_dir_name": None}
        except TrialEnded:
            pass
        except BaseException as error:  # the user's function may raise anything; the error is the trial's
            self._error = error
        finally:
            self._over = True
            self._come.release()

    def reported(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        """Pass a report on, and wait until the trial may continue.

        Raises:
            TrialEnded: the trial has been stopped.
        """
        if self._ending:
            raise TrialEnded
        reported = dict(metrics)
        reported["checkpoint_dir_name"] = None
        spec = session.spec()
        if checkpoint is not None and spec is not None:
            name = f"checkpoint_{self._next_checkpoint:06d}"
            self._next_checkpoint += 1
            spec.folder.upload(checkpoint, name)
            reported["checkpoint_dir_name"] = name
            reported["should_checkpoint"] = True
            self.latest_checkpoint = spec.folder.checkpoint(name)
        self._reported = reported
        self._come.release()
        self._go.acquire()
        if self._ending:
            raise TrialEnded

    # -- stop and reset

    def end(self) -> bool:
        """Unwind the function at its next report; return True if it has ended."""
        thread = self._thread
        if thread is None or self._over:
            return True
        self._ending = True
        self._go.release()
        thread.join(_END_SECONDS)
        return not thread.is_alive()

    def cleanup(self) -> None:
        """End the function."""
        self.end()

    def execute(self, fn: Callable[[FunctionTrainable], Any]) -> Any:
        """Return the result of a function that is called with this trainable."""
        return fn(self)

    def save_checkpoint(self, checkpoint_dir: str = "") -> dict[str, Any] | None:
        """Rejected: functions report their checkpoints."""
        raise NotImplementedError(
            "a function trainable saves by reporting a checkpoint: tune.report(metrics, checkpoint=...)"
        )

    def load_checkpoint(self, checkpoint_result: Any) -> None:
        """No-op: a function requests its checkpoint itself."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Set another configuration for the same function, once it has ended."""
        if not self.end():
            return False
        self._clear()
        return True


def _metrics(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (int, float)) or hasattr(value, "__float__"):
        return {"_metric": value}
    raise ValueError(
        "Invalid return or yield value: a trainable function returns or yields a dict of metrics, or one number, not "
        f"{type(value).__name__}: {value!r:.80}"
    )


def takes_config(function: Callable[..., Any]) -> bool:
    """True if a function can be called with the configuration alone.

    Raises:
        ValueError: it cannot; the error shows its signature.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin reports wrong arguments itself
        return True
    try:
        signature.bind({})
    except TypeError:
        name = getattr(function, "__qualname__", repr(function))
        raise ValueError(
            "Unknown argument found in the Trainable function. The function args must include a single 'config' "
            "positional parameter; "
            f"{name}{signature} cannot be called this way: put values into param_space, or bind them with "
            "tune.with_parameters"
        ) from None
    return True


def wrap_function(train_func: Callable[..., Any], name: str | None = None) -> type[FunctionTrainable]:
    """Return a class trainable for a function of the configuration.

    Raises:
        ValueError: the function has another signature.
    """
    takes_config(train_func)
    return class_of(train_func, name)


def class_of(train_func: Callable[..., Any], name: str | None = None) -> type[FunctionTrainable]:
    """Return a class trainable for a function whose signature was checked before."""
    called = str(name or getattr(train_func, "__name__", "func"))
    return type(called, (FunctionTrainable,), {"function": staticmethod(train_func)})
