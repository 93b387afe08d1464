"""A checkpoint with an XGBoost model."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from xgboost import Booster

from skate.train.framework_checkpoint import FrameworkCheckpoint


class XGBoostCheckpoint(FrameworkCheckpoint):
    """A folder with a booster in one file."""

    MODEL_FILENAME = "model.json"

    @classmethod
    def from_model(
        cls, booster: Booster, *, preprocessor: Any = None, path: str | None = None
    ) -> XGBoostCheckpoint:
        """Create a checkpoint of a booster, in a new folder unless `path` names one."""
        folder = path or tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(folder, exist_ok=True)
        booster.save_model(os.path.join(folder, cls.MODEL_FILENAME))
        made = cls(folder)
        if preprocessor is not None:
            made.set_preprocessor(preprocessor)
        return made

    def get_model(self) -> Booster:
        """Load the booster."""
        with self.as_directory() as folder:
            booster = Booster()
            booster.load_model(os.path.join(folder, self.MODEL_FILENAME))
            return booster
