"""Learners: losses, gradients and optimizers of modules."""

from __future__ import annotations

from skate import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    globals(),
    {
        "skate.rllib.core.learner.learner": ("Learner",),
        "skate.rllib.core.learner.learner_group": ("LearnerGroup",),
    },
)
