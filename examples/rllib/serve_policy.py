"""A policy behind HTTP: Serve loads a checkpoint, and answers observations with actions."""

from __future__ import annotations

import json
import tempfile
import urllib.request
from typing import Any

import gymnasium as gym

import skate as ray
from skate import serve
from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPOConfig


@serve.deployment
class Policy:
    """Acts with the policy of a checkpoint."""

    def __init__(self, path: str) -> None:
        self.algorithm = Algorithm.from_checkpoint(path)

    async def __call__(self, request: Any) -> dict[str, int]:
        observation = await request.json()
        return {"action": int(self.algorithm.compute_single_action(observation, explore=False))}


def ask(address: str, observation: Any) -> int:
    """Return the action for an observation."""
    body = json.dumps([float(number) for number in observation]).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data=body)) as answer:
        return int(json.loads(answer.read())["action"])


if __name__ == "__main__":
    path = tempfile.mkdtemp()
    algorithm = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build_algo()
    algorithm.save_to_path(path)
    algorithm.stop()
    ray.init(num_cpus=2)
    serve.run(Policy.bind(path))
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    steps, ended = 0, False
    while not ended:
        observation, _, terminated, truncated, _ = env.step(ask("http://127.0.0.1:8000/", observation))
        steps, ended = steps + 1, terminated or truncated
    print(f"the untrained policy held the pole for {steps} steps")
    serve.shutdown()
    ray.shutdown()
