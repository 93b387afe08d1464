"""DQN and SAC in one file: the loops that a program without a library would have, with a ring of arrays as buffer."""

from __future__ import annotations

import copy
import math

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.rllib.bare import net
from benchmarks.rllib.settings import BEFORE_LEARNING, Settings

GAMMA, CAPACITY = 0.99, 50_000


class Bare:
    """The part that both have in common: an environment, a ring of its steps, and one update for each step.

    Args:
        settings: Its sizes.
        seed: Of the networks, the actions and the environment.
    """

    def __init__(self, settings: Settings, seed: int = 1) -> None:
        torch.manual_seed(seed)
        self.settings, self.numbers = settings, np.random.default_rng(seed)
        self.env = gym.make(settings.env)
        self.env.action_space.seed(seed)
        self.size = int(np.prod(self.env.observation_space.shape or ()))
        self.seen = np.asarray(self.env.reset(seed=seed)[0], np.float32)
        self.obs, self.after = np.empty((2, CAPACITY, self.size), np.float32)
        self.rewards, self.goes_on = np.empty((2, CAPACITY), np.float32)
        self.actions = self.ring_of_actions()
        self.steps = 0

    def ring_of_actions(self) -> np.ndarray:
        raise NotImplementedError

    def act(self) -> tuple[object, object]:
        """Return an action as the environment takes it, and as the networks see it."""
        raise NotImplementedError

    def learn(self, rows: dict[str, Tensor]) -> None:
        """Update on rows of the ring."""
        raise NotImplementedError

    def iterate(self) -> int:
        """Sample and learn for a batch of steps, and return their number."""
        for _ in range(self.settings.batch):
            taken, kept = self.act()
            following, reward, terminated, truncated, _ = self.env.step(taken)
            place = self.steps % CAPACITY
            self.obs[place], self.after[place], self.actions[place] = self.seen, following, kept
            self.rewards[place], self.goes_on[place] = reward, not terminated
            self.steps += 1
            self.seen = following
            if terminated or truncated:
                self.seen = self.env.reset()[0]
            if self.steps >= BEFORE_LEARNING:
                drawn = self.numbers.integers(0, min(self.steps, CAPACITY), self.settings.minibatch)
                columns = {
                    "obs": self.obs, "after": self.after, "actions": self.actions,
                    "rewards": self.rewards, "goes_on": self.goes_on,
                }  # fmt: skip
                self.learn({name: torch.from_numpy(column[drawn]) for name, column in columns.items()})
        return self.settings.batch

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class BareDQN(Bare):
    """Q-learning with a target network, for environments with choices."""

    def __init__(self, settings: Settings, seed: int = 1) -> None:
        super().__init__(settings, seed)
        self.choices = int(self.env.action_space.n)  # type: ignore[attr-defined]
        self.values = net(self.size, settings.hidden, self.choices, nn.ReLU)
        self.target = copy.deepcopy(self.values).requires_grad_(False)
        self.parameters = list(self.values.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.lr, fused=True)

    def ring_of_actions(self) -> np.ndarray:
        return np.empty(CAPACITY, np.int64)

    def act(self) -> tuple[object, object]:
        if self.numbers.random() < max(0.05, 1.0 - 0.95 * self.steps / 10_000):
            action = int(self.numbers.integers(self.choices))
        else:
            with torch.no_grad():
                action = int(self.values(torch.from_numpy(self.seen)).argmax())
        return action, action

    def learn(self, rows: dict[str, Tensor]) -> None:
        with torch.no_grad():
            best = self.target(rows["after"]).amax(-1)
            wanted = rows["rewards"] + GAMMA * rows["goes_on"] * best
        found = self.values(rows["obs"]).gather(-1, rows["actions"].unsqueeze(-1)).squeeze(-1)
        self.optimizer.zero_grad()
        functional.huber_loss(found, wanted).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.parameters, 40.0)
        self.optimizer.step()
        if self.steps % 500 == 0:
            self.target.load_state_dict(self.values.state_dict())


class BareSAC(Bare):
    """Soft actor-critic with two critics, for environments with one array of bounded actions."""

    def __init__(self, settings: Settings, seed: int = 1) -> None:
        super().__init__(settings, seed)
        space = self.env.action_space
        assert isinstance(space, gym.spaces.Box)
        self.width, self.bound = int(np.prod(space.shape)), space.high
        self.policy = net(self.size, settings.hidden, 2 * self.width, nn.ReLU)
        self.critics = nn.ModuleList(
            net(self.size + self.width, settings.hidden, 1, nn.ReLU) for _ in range(2)
        )
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.of_critics, self.of_targets = list(self.critics.parameters()), list(self.targets.parameters())
        learnt = [*self.policy.parameters(), *self.of_critics, self.log_alpha]
        self.optimizer = torch.optim.Adam(learnt, lr=settings.lr, fused=True)

    def ring_of_actions(self) -> np.ndarray:
        return np.empty((CAPACITY, *(self.env.action_space.shape or ())), np.float32)

    def drawn(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in (-1, 1) and their log-likelihoods."""
        mean, log_std = self.policy(obs).chunk(2, dim=-1)
        log_std = log_std.clamp(-5.0, 2.0)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        slope = 2.0 * (math.log(2.0) - raw - functional.softplus(-2.0 * raw))
        density = -0.5 * noise.square() - 0.5 * math.log(2.0 * math.pi)
        return torch.tanh(raw), (density - log_std - slope).sum(-1)

    def act(self) -> tuple[object, object]:
        if self.steps < BEFORE_LEARNING:
            unit = self.numbers.uniform(-1.0, 1.0, self.width).astype(np.float32)
        else:
            with torch.no_grad():
                unit = self.drawn(torch.from_numpy(self.seen))[0].numpy()
        return unit * self.bound, unit

    def learn(self, rows: dict[str, Tensor]) -> None:
        obs, after, alpha = rows["obs"], rows["after"], self.log_alpha.detach().exp()
        with torch.no_grad():
            actions, logp = self.drawn(after)
            seen = torch.cat((after, actions), -1)
            worst = torch.minimum(*(target(seen) for target in self.targets)).squeeze(-1)
            wanted = rows["rewards"] + GAMMA * rows["goes_on"] * (worst - alpha * logp)
        actions, logp = self.drawn(obs)
        for parameter in self.of_critics:
            parameter.requires_grad_(False)
        seen = torch.cat((obs, actions), -1)
        gain = torch.minimum(*(critic(seen) for critic in self.critics)).squeeze(-1)
        for parameter in self.of_critics:
            parameter.requires_grad_(True)
        loss = (alpha * logp - gain).mean() - (self.log_alpha * (logp.detach() - self.width)).mean()
        seen = torch.cat((obs, rows["actions"]), -1)
        for critic in self.critics:
            loss = loss + functional.huber_loss(critic(seen).squeeze(-1), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.of_targets, self.of_critics, 0.005)
