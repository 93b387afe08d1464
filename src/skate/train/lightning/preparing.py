"""A look at a trainer of Lightning before it starts."""

from __future__ import annotations

from lightning.pytorch import Trainer

from skate.train.lightning.environment import RayLightningEnvironment
from skate.train.lightning.strategies import RayDDPStrategy, RayDeepSpeedStrategy, RayFSDPStrategy

_STRATEGIES = (RayDDPStrategy, RayFSDPStrategy, RayDeepSpeedStrategy)


def prepare_trainer(trainer: Trainer) -> Trainer:
    """Check that a trainer runs over the workers of the run; it is returned as it is.

    Raises:
        RuntimeError: its strategy or its environment is one that would start processes of its own; what to give is said.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, _STRATEGIES):
        names = ", ".join(each.__name__ for each in _STRATEGIES)
        raise RuntimeError(
            f"the trainer's strategy is {type(strategy).__name__}, which knows nothing of the workers of this run; "
            f"give Trainer(strategy=...) one of ray.train.lightning: {names}"
        )
    environment = getattr(strategy, "cluster_environment", None)
    if environment is not None and not isinstance(environment, RayLightningEnvironment):
        raise RuntimeError(
            f"the trainer asks {type(environment).__name__} for its ranks; "
            "give Trainer(plugins=[ray.train.lightning.RayLightningEnvironment()])"
        )
    return trainer
