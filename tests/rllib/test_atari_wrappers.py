"""Preprocessing of Atari games, on a game of a few lines that has what those have."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from skate.rllib.env.wrappers.atari_wrappers import (
    ClippedRewards,
    EpisodicLife,
    NormalizedImages,
    is_atari,
    wrap_atari_for_new_api_stack,
)


class Lives(gym.Env[np.ndarray, Any]):
    """Two lives of three steps each; a frame of bytes shows how many steps were made."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0, 255, (4, 4, 1), np.uint8)
        self.action_space = gym.spaces.Discrete(2)
        self.resets = self.at = 0

    def frame(self) -> np.ndarray:
        return np.full((4, 4, 1), self.at * 32, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.resets, self.at = self.resets + 1, 0
        return self.frame(), {"lives": 2}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.at += 1
        lives = 2 - self.at // 3
        return self.frame(), -7.5 if action else 3.0, lives == 0, False, {"lives": lives}


def test_a_lost_life_ends_the_episode_but_not_the_game() -> None:
    game = Lives()
    env = EpisodicLife(game)
    env.reset()
    assert [env.step(0)[2] for _ in range(3)] == [False, False, True]
    env.reset()
    assert (game.resets, game.at) == (1, 4), "the game began anew although a life was left"
    assert [env.step(0)[2] for _ in range(2)] == [False, True]
    env.reset()
    assert (game.resets, game.at) == (2, 0)


def test_rewards_are_signs_and_frames_are_near_zero() -> None:
    env = NormalizedImages(ClippedRewards(Lives()))
    first, _ = env.reset()
    assert first.dtype == np.float32 and np.all(first == -1.0) and env.observation_space.contains(first)
    frame, reward, *_ = env.step(1)
    assert reward == -1.0 and np.all(frame == 32 / 128 - 1)
    assert env.step(0)[1] == 1.0


@pytest.mark.parametrize("framestack", [None, 3])
def test_the_whole_preprocessing(framestack: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    # The frames of a real game come from its emulator, which gymnasium's own wrapper reads and scales.
    monkeypatch.setattr(gym.wrappers, "AtariPreprocessing", lambda env, **settings: env)
    env = wrap_atari_for_new_api_stack(Lives(), dim=4, framestack=framestack)
    env.reset()
    frames, reward, *_ = env.step(0)
    assert env.observation_space.shape == frames.shape == (4, 4, framestack or 1)
    assert reward == 1.0 and np.all(frames[..., -1] == -0.75)
    if framestack:
        assert np.all(frames[..., 0] == -1.0)


def test_games_are_known_by_their_names_and_images() -> None:
    assert is_atari("ale_py:ALE/Pong-v5") and is_atari("ALE/Pong-v5") and not is_atari("CartPole-v1")
    assert not is_atari(gym.make("CartPole-v1")) and not is_atari(Lives())
