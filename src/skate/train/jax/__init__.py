"""JAX in the workers of a run. Loading this does not load jax."""

from __future__ import annotations

from skate.train.extras import lazily

__getattr__, __all__ = lazily(__name__, {"config": ("JaxConfig",), "trainer": ("JaxTrainer",)}, "jax", "jax")
