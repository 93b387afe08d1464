"""Deploys again when a file changes: for development."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback

from skate.serve import api, loading

_LOOK_SECONDS = 0.3
_IGNORED = {".git", "__pycache__", ".venv", "node_modules"}


def changed_at(folder: str) -> dict[str, float]:
    """When each Python or YAML file below a folder was changed."""
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each not in _IGNORED]
        for name in names:
            if name.endswith((".py", ".yaml", ".yml")):
                path = os.path.join(root, name)
                try:
                    found[path] = os.stat(path).st_mtime
                except OSError:  # it has just gone
                    continue
    return found


def watch_and_run(parsed: argparse.Namespace) -> None:
    """Look at the folder until Ctrl-C."""
    before = changed_at(parsed.app_dir)
    folder = os.path.abspath(parsed.app_dir)
    while True:
        time.sleep(_LOOK_SECONDS)
        now = changed_at(parsed.app_dir)
        if now == before:
            continue
        before = now
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and os.path.abspath(file).startswith(folder + os.sep) and name != "__main__":
                del sys.modules[name]
        importlib.invalidate_caches()
        try:
            app = loading.application(parsed.target)
            api.run(app, name=parsed.name, route_prefix=parsed.route_prefix)
            print("deployed again", flush=True)
        except Exception:  # whatever the new code ends in, the old one is served on
            traceback.print_exc()
