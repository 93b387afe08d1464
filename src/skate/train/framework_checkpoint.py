"""Checkpoints of a framework's models, optionally with the preprocessor of their data."""

from __future__ import annotations

import base64
from typing import Any

from skate.train.checkpoint import Checkpoint

_KEY = "preprocessor"


class FrameworkCheckpoint(Checkpoint):
    """A checkpoint that can contain a preprocessor."""

    def get_preprocessor(self) -> Any:
        """Return the preprocessor, or None. Reading it runs code from the checkpoint, as unpickling does."""
        found = self.get_metadata().get(_KEY)
        if found is None:
            return None
        from skate import cloudpickle  # few checkpoints have one

        return cloudpickle.loads(base64.b64decode(found))

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Store a preprocessor, replacing an earlier one."""
        from skate import cloudpickle  # imported only if used

        self.update_metadata({_KEY: base64.b64encode(cloudpickle.dumps(preprocessor)).decode()})
