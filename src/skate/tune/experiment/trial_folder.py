"""The folder of a trial. Its checkpoints are complete or absent, as in Train, but not flushed to disk one by one.

A search has hundreds of them, and one lost in a machine crash is created again.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage.run_folder import MANIFEST, RunFolder


class TrialFolder(RunFolder):
    """Paths of a trial. Pickled into its process.

    Args:
        top: the folder of the search.
        name: the name of the trial's folder in it.
    """

    def __init__(self, top: RunFolder, name: str) -> None:
        # The filesystem was determined for the search and is not looked up again.
        self.name, self.filesystem, self.root = name, top.filesystem, top.path
        self.path = f"{top.path}/{name}"
        self._token = ""

    def commit(self, name: str, manifest: dict[str, Any]) -> Checkpoint:
        """Turn the staging folder into a checkpoint."""
        if not self.local:
            return super().commit(name, manifest)
        gathered, target = self._gathering(name), self.at(name)
        os.makedirs(gathered, exist_ok=True)  # the checkpoint has no file
        with open(f"{gathered}/{MANIFEST}", "w") as file:
            json.dump({"version": 1, "time": time.time(), **manifest}, file)
        if os.path.isdir(target):  # a resumed trial has already written a checkpoint of this name
            self._discard(target)
        os.rename(gathered, target)
        return self.checkpoint(name)

    def clear_unfinished(self) -> None:
        """Remove unfinished checkpoints of an earlier session."""
        if not self.local or not os.path.isdir(self.path):
            return
        begun = os.path.basename(self._gathering(""))
        for entry in os.listdir(self.path):
            if entry.startswith(begun):
                shutil.rmtree(self.at(entry), ignore_errors=True)
