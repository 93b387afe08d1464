"""TensorFlow in the workers of a run. Loading this does not load tensorflow."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(
    __name__,
    {
        "config": ("TensorflowConfig",),
        "trainer": ("TensorflowTrainer",),
        "checkpoint": ("TensorflowCheckpoint",),
        "shards": ("prepare_dataset_shard",),
    },
    "tensorflow",
    "tensorflow",
)
