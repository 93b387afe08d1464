"""Functions of Ray's test kit that tests of programs import: conditions, signals between tasks, scripts."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import skate


def wait_for_condition(
    condition_predictor: Callable[..., bool],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Wait until a condition holds.

    Args:
        condition_predictor: a function that is called with `kwargs` and returns True if the condition holds.
        timeout: seconds to wait.
        retry_interval_ms: the pause between two calls, in milliseconds.
        raise_exceptions: True to raise the exceptions of the function; else they count as False.

    Raises RuntimeError after the timeout, with the traceback of the last exception.
    """
    deadline = time.monotonic() + timeout
    last = ""
    while time.monotonic() <= deadline:
        try:
            if condition_predictor(**kwargs):
                return
            last = ""
        except Exception:  # a condition that cannot be checked yet does not hold yet
            if raise_exceptions:
                raise
            last = traceback.format_exc()
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_not_met(timeout, last))


async def async_wait_for_condition(
    condition_predictor: Callable[..., Any],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: Any,
) -> None:
    """Wait until a condition holds, as `wait_for_condition` does; the function may also be a coroutine function."""
    deadline = time.monotonic() + timeout
    last = ""
    while time.monotonic() <= deadline:
        try:
            found = condition_predictor(**kwargs)
            if await found if inspect.isawaitable(found) else found:
                return
            last = ""
        except Exception:  # a condition that cannot be checked yet does not hold yet
            last = traceback.format_exc()
        await asyncio.sleep(retry_interval_ms / 1000)
    raise RuntimeError(_not_met(timeout, last))


def _not_met(timeout: float, last: str) -> str:
    text = f"The condition wasn't met before the timeout expired: {timeout:g} s have passed"
    return f"{text}; the last question ended in\n{last}" if last else text


@skate.remote(num_cpus=0)
class SignalActor:
    """A signal between tasks: `send()` releases all callers of `wait()`."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    def send(self, clear: bool = False) -> None:
        """Release all waiting callers. With `clear`, later callers wait again."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait for the signal."""
        if should_wait:
            self.num_waiters += 1
            try:
                await self.ready_event.wait()
            finally:
                self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """Return the number of waiting callers."""
        return self.num_waiters


@skate.remote(num_cpus=0)
class Semaphore:
    """A semaphore between tasks."""

    def __init__(self, value: int = 1) -> None:
        self._semaphore = asyncio.Semaphore(value=value)

    async def acquire(self) -> bool:
        """Acquire the semaphore, waiting until it is available."""
        return await self._semaphore.acquire()

    async def release(self) -> None:
        """Release the semaphore."""
        self._semaphore.release()

    async def locked(self) -> bool:
        """Return True if the semaphore is exhausted."""
        return self._semaphore.locked()


def run_string_as_driver(
    driver_script: str,
    env: dict[str, str] | None = None,
    encode: str = "utf-8",
    timeout: float | None = 300,
) -> str:
    """Run a script to its end and return its output. Raises CalledProcessError if it fails."""
    with run_string_as_driver_nonblocking(driver_script, env) as process:
        output = process.communicate(timeout=timeout)[0].decode(encode)
    if process.returncode:
        print(output)
        raise subprocess.CalledProcessError(process.returncode, process.args, output, "")
    return output


def run_string_as_driver_nonblocking(
    driver_script: str, env: dict[str, str] | None = None, stderr: int = subprocess.STDOUT
) -> subprocess.Popen[bytes]:
    """Start a script in which `import ray` imports Skate."""
    return subprocess.Popen(
        [sys.executable, "-c", _STARTER, driver_script],
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
    )


_STARTER = (
    "import sys, skate.compat; skate.compat.install(); sys.argv[1:], text = [], sys.argv[1]; exec(text)"
)
