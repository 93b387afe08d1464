"""PPO in one file: the loop that a program without a library would have, columns first."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.rllib.settings import Settings

GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def net(
    inputs: int, hidden: tuple[int, ...], outputs: int, activation: type[nn.Module] = nn.Tanh
) -> nn.Sequential:
    """Return dense layers with an activation between them."""
    widths = (inputs, *hidden)
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


class BarePPO:
    """PPO for environments with choices, such as CartPole; each call of `iterate` samples a batch and learns.

    Args:
        settings: Its sizes.
        seed: Of the networks, the actions and the environments.
    """

    def __init__(self, settings: Settings, seed: int = 1) -> None:
        torch.manual_seed(seed)
        self.settings = settings
        self.envs = [gym.make(settings.env) for _ in range(settings.envs)]
        size = int(np.prod(self.envs[0].observation_space.shape or ()))
        choices = int(self.envs[0].action_space.n)  # type: ignore[attr-defined]
        self.policy, self.critic = net(size, settings.hidden, choices), net(size, settings.hidden, 1)
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.lr, fused=True)
        self.row = np.array([env.reset(seed=seed + at)[0] for at, env in enumerate(self.envs)], np.float32)
        self.running = np.zeros(settings.envs)
        self.returns: list[float] = []

    def iterate(self) -> int:
        """Sample a batch, learn from it, and return its steps."""
        self.learn(*self.sample())
        return self.settings.batch

    @torch.no_grad()
    def sample(self) -> tuple[Tensor, ...]:
        """Return observations, actions, log-probabilities, advantages and value targets."""
        count = self.settings.envs
        steps = self.settings.batch // count
        obs = np.empty((steps + 1, count, self.row.shape[1]), np.float32)
        actions = np.empty((steps, count), np.int64)
        logits = torch.empty((steps, count, self.policy[-1].out_features))
        rewards = np.empty((steps, count), np.float32)
        goes_on, cut = np.ones((steps, count), np.float32), np.ones((steps, count), np.float32)
        finals: dict[tuple[int, int], np.ndarray] = {}
        obs[0] = self.row
        seen = torch.from_numpy(obs)
        for t in range(steps):
            logits[t] = self.policy(seen[t])
            actions[t] = (logits[t] - torch.empty_like(logits[t]).exponential_().log_()).argmax(-1)
            for lane, env in enumerate(self.envs):
                following, reward, terminated, truncated, _ = env.step(actions[t, lane])
                rewards[t, lane] = reward
                self.running[lane] += float(reward)
                if terminated or truncated:
                    goes_on[t, lane], cut[t, lane] = not terminated, 0.0
                    finals[t, lane] = following
                    following = env.reset()[0]
                    self.returns.append(float(self.running[lane]))
                    self.running[lane] = 0.0
                obs[t + 1, lane] = following
        self.row = obs[-1]
        values = self.critic(seen).squeeze(-1).numpy()
        after = values[1:].copy()
        if finals:
            places = tuple(np.array(list(finals)).T)
            after[places] = self.critic(torch.from_numpy(np.array(list(finals.values())))).squeeze(-1).numpy()
        errors = rewards + GAMMA * goes_on * after - values[:-1]
        advantages = np.empty_like(errors)
        behind = np.zeros(count, np.float32)
        for t in range(steps - 1, -1, -1):
            behind = errors[t] + GAMMA * LAMBDA * cut[t] * behind
            advantages[t] = behind
        taken = torch.from_numpy(actions)
        logp = torch.log_softmax(logits, -1).gather(-1, taken.unsqueeze(-1)).squeeze(-1)
        columns = (taken, logp, torch.from_numpy(advantages), torch.from_numpy(advantages + values[:-1]))
        return seen[:-1].flatten(0, 1), *(column.flatten() for column in columns)

    def learn(self, obs: Tensor, actions: Tensor, logp: Tensor, advantages: Tensor, targets: Tensor) -> None:
        """Update both networks in epochs of minibatches."""
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        for _ in range(self.settings.epochs):
            for rows in torch.randperm(len(obs)).split(self.settings.minibatch):
                seen = obs[rows]
                log_probs = torch.log_softmax(self.policy(seen), -1)
                ratio = (log_probs.gather(-1, actions[rows].unsqueeze(-1)).squeeze(-1) - logp[rows]).exp()
                gain = advantages[rows]
                better = torch.minimum(gain * ratio, gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                wrong = (self.critic(seen).squeeze(-1) - targets[rows]).square().mean()
                self.optimizer.zero_grad()
                (wrong - better).backward()  # type: ignore[no-untyped-call]
                self.optimizer.step()

    def close(self) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()
