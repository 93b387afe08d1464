"""The settings of each scenario, the same for every target."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of a training.

    Attributes:
        algorithm: PPO, DQN or SAC.
        env: The id of the environment in gymnasium.
        envs: Copies of it in each runner.
        runners: Processes that sample; 0 for the driver alone.
        batch: Steps sampled in an iteration.
        minibatch: Rows in a minibatch.
        epochs: How often PPO uses each row.
        hidden: Widths of the hidden layers.
        lr: The learning rate.
    """

    algorithm: str = "PPO"
    env: str = "CartPole-v1"
    envs: int = 8
    runners: int = 0
    batch: int = 1024
    minibatch: int = 256
    epochs: int = 4
    hidden: tuple[int, ...] = (64, 64)
    lr: float = 1e-3


#: What the off-policy algorithms sample at random before they learn.
BEFORE_LEARNING = 300
PPO = Settings()
DQN = Settings("DQN", envs=1, batch=100, minibatch=32, hidden=(256, 256), lr=5e-4)
SAC = replace(DQN, algorithm="SAC", env="Pendulum-v1", minibatch=256, lr=3e-4)
SETTINGS = {
    "ppo_local": PPO,
    "sampling": PPO,
    "calls": PPO,
    "start": PPO,
    "ppo_default": replace(PPO, envs=1, batch=4000, minibatch=128, epochs=30, hidden=(256, 256), lr=5e-5),
    "ppo_runners": replace(PPO, runners=2, batch=2048),
    "callback": PPO,
    "mean_std_filter": PPO,
    "connector": PPO,
    "lstm": PPO,
    "multi_agent": PPO,
    "dqn": DQN,
    "dqn_default": DQN,
    "sac": SAC,
    "sac_small": SAC,
}


def smaller(settings: Settings) -> Settings:
    """Return settings that show only that a scenario runs."""
    ppo = settings.algorithm == "PPO"
    return replace(settings, batch=128 if ppo else 10, minibatch=min(settings.minibatch, 64), epochs=1)
