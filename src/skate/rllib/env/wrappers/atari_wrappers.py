"""Preprocessing of Atari games: small gray frames, clipped rewards, one life per episode."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class EpisodicLife(gym.Wrapper[Any, Any, Any, Any]):
    """Ends the episode with each lost life; the game itself begins anew only when all are lost.

    Args:
        env: A game with lives.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self._lives = 0
        self._over = True

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._over = terminated or truncated
        lives = int(info.get("lives", 0))
        lost = 0 < lives < self._lives
        self._lives = lives
        return observation, reward, terminated or lost, truncated, info

    def reset(self, **kwargs: Any) -> Any:
        if self._over:
            observation, info = self.env.reset(**kwargs)
        else:
            observation, _, _, _, info = self.env.step(0)
        self._over = False
        self._lives = int(info.get("lives", 0))
        return observation, info


class ClippedRewards(gym.RewardWrapper[Any, Any]):
    """Rewards of -1, 0 or 1 by their sign."""

    def reward(self, reward: Any) -> float:
        return float(np.sign(reward))


class NormalizedImages(gym.ObservationWrapper[Any, Any, Any]):
    """Frames as numbers from -1 to 1, with a channel.

    Args:
        env: An environment with frames of bytes.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        shape = env.observation_space.shape or ()
        self.observation_space = gym.spaces.Box(
            -1.0, 1.0, shape if len(shape) == 3 else (*shape, 1), np.float32
        )

    def observation(self, observation: Any) -> np.ndarray:
        frame = np.asarray(observation, np.float32) / 128.0 - 1.0
        return frame.reshape(self.observation_space.shape)


def is_atari(env: Any) -> bool:
    """Return True for an environment of Atari, or for the name of one, whose observations are images.

    Args:
        env: An environment, or its id.
    """
    if isinstance(env, str):
        return env.startswith(("ALE/", "ale_py:"))
    shape = getattr(env.observation_space, "shape", None)
    return (shape is None or len(shape) > 2) and "AtariEnv<ALE" in str(env)


def wrap_atari_for_new_api_stack(
    env: gym.Env[Any, Any],
    dim: int = 64,
    frameskip: int = 4,
    framestack: int | None = None,
    grayscale: bool = True,
) -> gym.Env[Any, Any]:
    """Return a game with the usual preprocessing.

    Args:
        env: A game made with ``frameskip=1``.
        dim: Height and width of a frame.
        frameskip: Steps of the game for each action.
        framestack: Frames that are laid side by side as channels; None for one, which a connector may stack.
        grayscale: True for one channel in the place of three colours.
    """
    wrapped: Any = gym.wrappers.AtariPreprocessing(
        env,
        noop_max=30,
        frame_skip=frameskip,
        screen_size=dim,
        grayscale_obs=grayscale,
        grayscale_newaxis=True,
    )
    wrapped = NormalizedImages(ClippedRewards(EpisodicLife(wrapped)))
    if framestack is None:
        return wrapped  # type: ignore[no-any-return]
    stacked = gym.wrappers.FrameStackObservation(wrapped, framestack)
    low, high = -1.0, 1.0
    channels = wrapped.observation_space.shape[-1] * framestack
    box = gym.spaces.Box(low, high, (dim, dim, channels), np.float32)
    return gym.wrappers.TransformObservation(
        stacked, lambda frames: np.concatenate(list(frames), axis=-1), box
    )
