"""Deploys again when a file changes: for development."""

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
    """When each Python or YAML file below a folder was changed, and how long it is."""
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in _IGNORED and not each.startswith(".")]
        for name in names:
            if name.endswith(_ENDINGS):
                path = os.path.join(root, name)
                try:
                    state = os.stat(path)
                except OSError:  # it has just gone
                    continue
                found[path] = state.st_mtime_ns, state.st_size
    return found


def watch(folder: str, deploy: Callable[[], None]) -> None:
    """Look at a folder until Ctrl-C. What cannot be imported or does not start leaves the old version serving."""
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
        except Exception as error:  # whatever the new code ends in, the old one is served on
            _show(error)


def _show(error: BaseException) -> None:
    import traceback  # only errors need it

    cause = cause_of(error.__cause__ or error)
    text = "".join(traceback.format_exception(type(cause), cause, cause.__traceback__))
    print(
        f"{text}serve run: {error}\nThe previous version is still served; change a file to try again",
        file=sys.stderr,
        flush=True,
    )
