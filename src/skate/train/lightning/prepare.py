"""A check of a Lightning trainer before it starts."""

from __future__ import annotations

from lightning.pytorch import Trainer

from skate.train.lightning.environment import RayLightningEnvironment
from skate.train.lightning.strategies import RayDDPStrategy, RayDeepSpeedStrategy, RayFSDPStrategy

_STRATEGIES = (RayDDPStrategy, RayFSDPStrategy, RayDeepSpeedStrategy)


def prepare_trainer(trainer: Trainer) -> Trainer:
    """Check that a Lightning trainer runs over the workers of the run, and return it unchanged.

    Raises:
        RuntimeError: its strategy or environment would start its own processes; the message names the replacement.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, _STRATEGIES):
        names = ", ".join(each.__name__ for each in _STRATEGIES)
        raise RuntimeError(
            f"the trainer's strategy is {type(strategy).__name__}, which does not support the workers of this "
            f"run; set Trainer(strategy=...) to one of ray.train.lightning: {names}"
        )
    environment = getattr(strategy, "cluster_environment", None)
    if environment is not None and not isinstance(environment, RayLightningEnvironment):
        raise RuntimeError(
            f"the trainer gets its ranks from {type(environment).__name__}; set "
            "Trainer(plugins=[ray.train.lightning.RayLightningEnvironment()])"
        )
    return trainer
