"""Fisher's iris data, for small models."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split


def get_iris_data(test_size: float = 0.2) -> tuple[Any, Any, Any, Any]:
    """Split the features and classes of 150 flowers at random into training and test data.

    Args:
        test_size: the fraction of flowers to test with.

    Returns:
        Features and classes for training, then those for tests.
    """
    flowers = load_iris()
    parts = train_test_split(flowers.data, np.eye(3)[flowers.target], test_size=test_size)
    return parts[0], parts[2], parts[1], parts[3]


def set_keras_threads(threads: int) -> None:
    """Limit TensorFlow's threads in this process, so that trials do not compete for CPUs."""
    import tensorflow as tf  # only examples need it

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
