"""A network of your own, and callbacks: the module has one trunk for actions and values."""

from __future__ import annotations

from typing import Any

import torch

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.callbacks.callbacks import RLlibCallback
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module import RLModuleSpec
from skate.rllib.core.rl_module.apis import ValueFunctionAPI
from skate.rllib.core.rl_module.torch import TorchRLModule


class Trunk(TorchRLModule, ValueFunctionAPI):
    """Two heads on one trunk; `model_config["width"]` is its width."""

    def setup(self) -> None:
        width = self.model_config["width"]
        self.trunk = torch.nn.Sequential(torch.nn.Linear(self.observation_space.shape[0], width), torch.nn.Tanh())
        self.logits = torch.nn.Linear(width, int(self.action_space.n))
        self.value = torch.nn.Linear(width, 1)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.logits(self.trunk(batch[Columns.OBS]))}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        return self.value(self.trunk(batch[Columns.OBS])).squeeze(-1)


class LongEpisodes(RLlibCallback):
    """Counts the episodes that reach a hundred steps."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        metrics_logger.log_value("long_episodes", int(len(episode) >= 100), reduce="sum")


config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(lr=1e-3, train_batch_size=1024, minibatch_size=256, num_epochs=6, lambda_=0.95, vf_clip_param=1e9)
    .rl_module(rl_module_spec=RLModuleSpec(module_class=Trunk, model_config={"width": 64}))
    .callbacks(LongEpisodes)
    .debugging(seed=1)
)

if __name__ == "__main__":
    algorithm = config.build_algo()
    for _ in range(10):
        found = algorithm.train()["env_runners"]
        print(f"mean return {found['episode_return_mean']:5.1f}, long episodes {found.get('long_episodes', 0)}")
    algorithm.stop()
