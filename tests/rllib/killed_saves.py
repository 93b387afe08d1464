"""Saves that are killed: before each of their operations on files in turn, by forks of one process that has loaded torch."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

MANY = 10**6


class Countdown:
    """Kills its process before the operation on files of a number.

    Attributes:
        left: Operations until then.
    """

    def __init__(self) -> None:
        self.left = MANY
        for name in ("rename", "replace", "makedirs", "mkdir", "fsync", "chmod", "unlink", "rmdir", "open"):
            setattr(os, name, self.counted(getattr(os, name)))
        for name in ("write_bytes", "write_text"):
            setattr(pathlib.Path, name, self.counted(getattr(pathlib.Path, name)))

    def counted(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Return the operation, which counts down."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*args, **kwargs)

        return call


def walk(folder: Path, save: Callable[[Path], Any]) -> None:
    """Save over copies of ``first``, killed before each operation in turn, and print the number of operations.

    The folder then has ``second``, a whole save, and ``saved-N`` for each operation. Functions of files stay changed: call it
    in a process of its own.

    Args:
        folder: Has ``first``, an older save.
        save: Saves to a path.
    """
    shutil.copytree(folder / "first", folder / "second")
    countdown = Countdown()
    save(folder / "second")
    operations = MANY - countdown.left
    for after in range(operations):
        countdown.left = MANY
        path = folder / f"saved-{after}"
        shutil.copytree(folder / "first", path)
        pid = os.fork()
        if pid == 0:
            countdown.left = after
            save(path)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == -signal.SIGKILL, f"operation {after} of {operations} did not come: {code}"
    print(operations, flush=True)
