"""A module of a few lines with the calls that runners make, and environments whose every number is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from skate.rllib.core.columns import Columns


class Choice:
    """A categorical distribution."""

    def __init__(self, logits: torch.Tensor, deterministic: bool = False) -> None:
        self.logits = logits
        self.deterministic = deterministic

    @classmethod
    def from_logits(cls, logits: torch.Tensor) -> Choice:
        return cls(logits)

    def to_deterministic(self) -> Choice:
        return Choice(self.logits, True)

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        if self.deterministic:
            return self.logits.argmax(-1)
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log()).argmax(-1)

    def logp(self, value: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(self.logits, -1).gather(-1, value.unsqueeze(-1)).squeeze(-1)


class Gauss(Choice):
    """A normal distribution of width 1, cut to what a test can read."""

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        return (
            self.logits
            if self.deterministic
            else self.logits + torch.randn(self.logits.shape, generator=generator)
        )

    def to_deterministic(self) -> Gauss:
        return Gauss(self.logits, True)

    def logp(self, value: torch.Tensor) -> torch.Tensor:
        return -0.5 * (value - self.logits).square().sum(-1)


class TinyModule(torch.nn.Module):
    """One linear layer; with a memory that counts steps if asked for."""

    def __init__(self, inputs: int, outputs: int, distribution: Any, stateful: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layer = torch.nn.Linear(inputs, outputs)
        self.distribution, self.stateful = distribution, stateful
        self.seen_t: list[int] = []

    def is_stateful(self) -> bool:
        return self.stateful

    def get_initial_state(self) -> dict[str, Any]:
        return {"h": torch.zeros(1)} if self.stateful else {}

    def forward_exploration(self, batch: dict[str, Any], t: int = 0) -> dict[str, Any]:
        self.seen_t.append(t)
        out = {Columns.ACTION_DIST_INPUTS: self.layer(batch[Columns.OBS].float())}
        if self.stateful:
            memory = batch[Columns.STATE_IN]["h"]
            out[Columns.ACTION_DIST_INPUTS] = out[Columns.ACTION_DIST_INPUTS] + memory.unsqueeze(1)
            out[Columns.STATE_OUT] = {"h": memory + 1}
        return out

    forward_inference = forward_exploration

    def get_exploration_action_dist_cls(self) -> Any:
        return self.distribution

    get_inference_action_dist_cls = get_exploration_action_dist_cls

    def get_state(self, **kwargs: Any) -> dict[str, np.ndarray]:
        return {key: value.numpy().copy() for key, value in self.state_dict().items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in state.items()})


class Spec:
    """Builds a tiny module for the spaces that a runner names."""

    def __init__(self, spaces: dict[str, Any], stateful: bool = False) -> None:
        self.observations, self.actions = spaces["default_policy"]
        self.stateful = stateful

    def build(self) -> TinyModule:
        if isinstance(self.actions, gym.spaces.Discrete):
            size, distribution = int(self.actions.n), Choice
        else:
            size, distribution = int(np.prod(self.actions.shape)), Gauss
        return TinyModule(int(np.prod(self.observations.shape)), size, distribution, self.stateful)


def config(env: Any = "CartPole-v1", stateful: bool = False, **settings: Any) -> SimpleNamespace:
    """The fields of a config that runners read."""
    fields = {
        "env": env, "env_config": {}, "num_envs_per_env_runner": 4, "num_env_runners": 0, "rollout_fragment_length": 20,
        "seed": 7, "explore": True, "batch_mode": "truncate_episodes",
    }  # fmt: skip
    made = SimpleNamespace(**(fields | settings))
    made.get_rl_module_spec = lambda env, spaces, inference_only: Spec(spaces, stateful)
    return made


class Counting(gym.Env[np.ndarray, int]):
    """Observes how many steps were made since the reset, and in which episode; ends after ``length`` steps.

    Rewards are 1, 2, 3, ...; ends by truncation in every second episode.
    """

    def __init__(self, settings: dict[str, Any] | None = None, fails_at: int = 0) -> None:
        self.observation_space = gym.spaces.Box(-1e6, 1e6, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length = (settings or {}).get("length", 5)
        self.fails_at = (settings or {}).get("fails_at", fails_at)
        self.episode, self.at, self.total = 0, 0, 0
        self.salt = 0.0

    def _observe(self) -> np.ndarray:
        return np.array([self.episode, self.at, self.salt], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.salt = float(self.np_random.integers(1000))
        self.episode += 1
        self.at = 0
        return self._observe(), {"episode": self.episode}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.at += 1
        self.total += 1
        if self.total == self.fails_at:
            raise ZeroDivisionError(f"step {self.total} of this environment fails")
        over = self.at >= self.length
        even = self.episode % 2 == 0
        return self._observe(), float(self.at), over and not even, over and even, {"at": self.at}
