"""A checkpoint with a Keras model."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from skate.train.checkpoint import Checkpoint


class TensorflowCheckpoint(Checkpoint):
    """A folder with a Keras model; the file name is in its metadata."""

    MODEL_FILENAME_KEY = "_model_filename"

    @classmethod
    def from_model(cls, model: Any, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Create a checkpoint of a Keras model."""
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        model.save(os.path.join(folder, "model.keras"))
        return cls._named(folder, "model.keras")

    @classmethod
    def from_h5(cls, file_path: str, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Create a checkpoint from the file of a saved model, such as `model.h5` or `model.keras`.

        Raises:
            ValueError: it is not such a file.
        """
        if not os.path.isfile(file_path) or not file_path.endswith((".h5", ".keras")):
            raise ValueError(f"there is no model file, named .h5 or .keras, at {file_path!r}")
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        shutil.copy(file_path, folder)
        return cls._named(folder, os.path.basename(file_path))

    @classmethod
    def from_saved_model(cls, dir_path: str, *, preprocessor: Any = None) -> TensorflowCheckpoint:
        """Create a checkpoint from a folder written by `tf.saved_model.save` or `model.export`.

        Raises:
            ValueError: it is not a folder.
        """
        if not os.path.isdir(dir_path):
            raise ValueError(f"there is no folder of a saved model at {dir_path!r}")
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        name = os.path.basename(os.path.normpath(dir_path))
        shutil.copytree(dir_path, os.path.join(folder, name))
        return cls._named(folder, name)

    @classmethod
    def _named(cls, folder: str, name: str) -> TensorflowCheckpoint:
        made = cls(folder)
        made.update_metadata({cls.MODEL_FILENAME_KEY: name})
        return made

    def get_model(self) -> Any:
        """Load the model; for a saved model, the result of `tf.saved_model.load`.

        Raises:
            ValueError: the checkpoint was not made by this class.
        """
        import tensorflow as tf  # takes seconds, and checkpoints are also created without loading models

        name = self.get_metadata().get(self.MODEL_FILENAME_KEY)
        if name is None:
            raise ValueError(
                f"{self} does not record the file of its model; load it yourself with checkpoint.as_directory()"
            )
        with self.as_directory() as folder:
            path = os.path.join(folder, name)
            return tf.saved_model.load(path) if os.path.isdir(path) else tf.keras.models.load_model(path)
