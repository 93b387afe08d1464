"""The scenarios on Stable-Baselines3, in its own environment."""

from __future__ import annotations

from typing import Any

from benchmarks.rllib.settings import BEFORE_LEARNING, Settings


class OnSb3:
    """A training of Stable-Baselines3; each call of `iterate` samples a batch and learns.

    Args:
        settings: Its sizes.
        sampling: True to sample only.
        seed: Of everything.
    """

    def __init__(self, settings: Settings, sampling: bool = False, seed: int = 1) -> None:
        import stable_baselines3 as sb3  # installed for this target alone
        from stable_baselines3.common.env_util import make_vec_env
        from torch import nn

        self.settings, self.sampling = settings, sampling
        env = make_vec_env(settings.env, n_envs=settings.envs, seed=seed)
        given: dict[str, Any] = {
            "learning_rate": settings.lr,
            "batch_size": settings.minibatch,
            "policy_kwargs": {"net_arch": list(settings.hidden)},
            "device": "cpu",
            "seed": seed,
        }
        if settings.algorithm == "PPO":
            given |= {"n_steps": settings.batch // settings.envs, "n_epochs": settings.epochs}
            given["policy_kwargs"] |= {"activation_fn": nn.Tanh}
        else:
            given |= {"learning_starts": BEFORE_LEARNING, "train_freq": 1, "gradient_steps": 1}
            given["buffer_size"] = 50_000
        self.model = getattr(sb3, settings.algorithm)("MlpPolicy", env, **given)
        if sampling:
            _, self.callback = self.model._setup_learn(10**9)

    def iterate(self) -> int:
        """Train on one batch, or sample one, and return its steps."""
        if self.sampling:
            model = self.model
            model.collect_rollouts(model.env, self.callback, model.rollout_buffer, model.n_steps)
        else:
            self.model.learn(self.settings.batch, reset_num_timesteps=False)
        return self.settings.batch

    def close(self) -> None:
        """Close the environments."""
        self.model.env.close()
