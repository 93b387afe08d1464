"""How the actions of a module become those of the environment: scaled from [-1, 1] to the bounds, or clipped to them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from skate.rllib.env.nested import batch as put_together


def unsquashed(actions: np.ndarray, space: spaces.Box) -> np.ndarray:
    """Scale actions from [-1, 1] to the bounds of a space, and clip them there."""
    low, high = space.low, space.high
    if np.issubdtype(space.dtype, np.integer):
        span = high.astype(np.float64) - low + 1
        scaled = np.floor(low + (actions + 1.0) * span / 2.0)
        return np.clip(scaled, low, high).astype(space.dtype)
    return np.clip(low + (actions + 1.0) * (high - low) / 2.0, low, high).astype(space.dtype)


class ActionPlan:
    """Turns batches of actions of one space into actions for environments.

    Args:
        space: The space of one action.
        normalize: True if modules act in [-1, 1]; bounded dimensions are scaled then.
        clip: True to clip actions to the bounds if they are not normalized.
    """

    def __init__(self, space: gym.Space[Any], normalize: bool = True, clip: bool = False) -> None:
        self.space = space
        bounded = isinstance(space, spaces.Box) and bool(np.all(space.bounded_below & space.bounded_above))
        self.unsquashes = normalize and bounded
        self.clips = clip and not self.unsquashes and isinstance(space, spaces.Box)
        self.is_simple = isinstance(
            space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        )

    @property
    def keeps(self) -> bool:
        """True if environments take the module's actions as they are."""
        return not (self.unsquashes or self.clips)

    def random(self, count: int, generator: torch.Generator) -> Any:
        """Return random actions as the module would choose them.

        Args:
            count: Number of actions.
            generator: The random stream.
        """
        if self.unsquashes:
            drawn = torch.rand(
                (count, *(self.space.shape or ())), generator=generator, device=generator.device
            )
            return (drawn * 2.0 - 1.0).cpu().numpy()
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device))
        self.space.seed(seed)
        return put_together([self.space.sample() for _ in range(count)])

    def for_env(self, actions: Any) -> Any:
        """Return a batch of actions, or one, as the environment takes it."""
        if isinstance(self.space, spaces.Box):
            if self.unsquashes:
                return unsquashed(actions, self.space)
            if self.clips:
                return np.clip(actions, self.space.low, self.space.high)
        return actions
