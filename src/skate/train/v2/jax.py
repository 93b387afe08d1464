"""The trainer for JAX under the name of its module in Ray."""

from skate.train.jax.config import JaxConfig
from skate.train.jax.trainer import JaxTrainer

__all__ = ["JaxConfig", "JaxTrainer"]
