"""TensorFlow datasets that are already a worker's shard."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def prepare_dataset_shard(tf_dataset_shard: Any) -> Any:
    """Return a `tf.data.Dataset` of a shard that strategies do not split again, with prefetching."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf_dataset_shard.with_options(options).prefetch(tf.data.AUTOTUNE)
