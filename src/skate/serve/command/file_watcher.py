"""Redeployment when a file changes, for development."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from skate.serve.config_loader import cause_of

_LOOK_SECONDS = 0.25
_ENDINGS = (".py", ".yaml", ".yml")
_IGNORED = {"__pycache__", "node_modules", "venv", "site-packages"}


def changed_at(folder: str) -> dict[str, tuple[int, int]]:
    """Return the modification time and the size of each Python or YAML file in a folder and its subfolders."""
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in _IGNORED and not each.startswith(".")]
        for name in names:
            if name.endswith(_ENDINGS):
                path = os.path.join(root, name)
                try:
                    state = os.stat(path)
                except OSError:  # it was just deleted
                    continue
                found[path] = state.st_mtime_ns, state.st_size
    return found


def watch(folder: str, deploy: Callable[[], None]) -> None:
    """Call `deploy` after each change in a folder, until Ctrl-C. If it fails, the old version is still served."""
    print(f"Watching {folder} for changes", flush=True)
    before = changed_at(folder)
    while True:
        time.sleep(_LOOK_SECONDS)
        now = changed_at(folder)
        if now == before:
            continue
        names = sorted({os.path.relpath(path, folder) for path, _ in now.items() ^ before.items()})
        before = now
        print(
            f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''} changed; deploying again",
            flush=True,
        )
        try:
            deploy()
        except Exception as error:  # new code may raise anything; the old version is still served
            _show(error)


def _show(error: BaseException) -> None:
    import traceback  # imported only for errors

    cause = cause_of(error.__cause__ or error)
    text = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
    print(
        f"{text}serve run: {error}\nThe previous version is still served; change a file to try again",
        file=sys.stderr,
        flush=True,
    )
