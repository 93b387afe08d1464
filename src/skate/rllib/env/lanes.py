"""N environments stepped together: the one file that knows how vectors of gymnasium begin their next episodes.

In a `SyncVectorEnv` each environment is stepped here, without its batching, and an ended lane is reset within the step.
Other vectors are taken as they are, in any of gymnasium's three modes of reset.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from skate.rllib.env.env_checks import check_reset, check_step
from skate.rllib.env.env_runner import StepFailedRecreateEnvError

logger = logging.getLogger(__name__)


@dataclass
class Step:
    """One step of all lanes.

    Attributes:
        observations: Per lane, the observation to act on next.
        rewards: Per lane.
        terminateds: Per lane, True if the episode ended by itself.
        truncateds: Per lane, True if the episode was cut off.
        infos: Per lane, that go with ``observations``.
        finals: The last observation and infos of lanes whose episode ended and that are reset already.
        stepped: Per lane, False if it only reset; None if all stepped.
        restarted: Lanes whose environment failed and was made anew.
    """

    observations: list[Any]
    rewards: list[float]
    terminateds: list[bool]
    truncateds: list[bool]
    infos: list[dict[str, Any]]
    finals: dict[int, tuple[Any, dict[str, Any]]] = field(default_factory=dict)
    stepped: list[bool] | None = None
    restarted: list[int] = field(default_factory=list)


class Lanes:
    """N environments stepped together.

    Args:
        env: A vector of gymnasium.
        restart_failed: True to make an environment anew that raises; False to let its exception through.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], restart_failed: bool = False) -> None:
        self.env = env
        self.num_lanes = int(env.num_envs)
        self.restart_failed = restart_failed
        #: Environments of this class alone are stepped one by one: a subclass or a wrapper may do more.
        self.is_direct = type(env) is SyncVectorEnv
        self.mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self._ended = np.zeros(self.num_lanes, bool)

    def reset(self, seeds: Sequence[int | None] | None = None) -> tuple[list[Any], list[dict[str, Any]]]:
        """Begin a new episode in every lane.

        Args:
            seeds: One per lane; None leaves the random state of the environments as it is.

        Returns:
            The observations and the infos, per lane.
        """
        chosen = list(seeds) if seeds is not None else [None] * self.num_lanes
        self._ended[:] = False
        if self.is_direct:
            pairs = [self._reset_lane(lane, seed) for lane, seed in enumerate(chosen)]
            return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        observations, infos = self.env.reset(seed=chosen if seeds is not None else None)  # type: ignore[arg-type]
        return self._split(observations), infos_by_lane(infos, self.num_lanes)

    def step(self, actions: Any) -> Step:
        """Step every lane.

        Args:
            actions: One per lane, as the environments take them.
        """
        if not self.is_direct:
            return self._step_vector(actions)
        observations: list[Any] = []
        rewards: list[float] = []
        terminateds: list[bool] = []
        truncateds: list[bool] = []
        infos: list[dict[str, Any]] = []
        step = Step(observations, rewards, terminateds, truncateds, infos)
        for lane, env in enumerate(self.env.envs):  # type: ignore[attr-defined]
            returned = None
            try:
                returned = env.step(actions[lane])
                observation, reward, terminated, truncated, info = returned
                if terminated or truncated:
                    step.finals[lane] = observation, info
                    observation, info = env.reset()
            except Exception as error:  # an environment is the user's code, which may raise anything
                check_step(env, returned)
                if not self.restart_failed:
                    raise
                if not isinstance(error, StepFailedRecreateEnvError):
                    logger.exception("The environment of lane %d failed; it is made anew", lane)
                step.finals.pop(lane, None)
                observation, info = self._remake(lane)
                reward, terminated, truncated = 0.0, False, False
                step.restarted.append(lane)
            observations.append(observation)
            rewards.append(reward)
            terminateds.append(terminated)
            truncateds.append(truncated)
            infos.append(info)
        if step.restarted:
            step.stepped = [lane not in step.restarted for lane in range(self.num_lanes)]
        return step

    def _step_vector(self, actions: Any) -> Step:
        observations, rewards, terminateds, truncateds, infos = self.env.step(actions)
        split = infos_by_lane(infos, self.num_lanes)
        step = Step(
            self._split(observations), rewards.tolist(), terminateds.tolist(), truncateds.tolist(), split
        )
        ended = np.logical_or(terminateds, truncateds)
        if self.mode is AutoresetMode.NEXT_STEP:
            if self._ended.any():
                step.stepped = (~self._ended).tolist()
                ended = ended & ~self._ended
            self._ended = ended
        elif ended.any():
            self._begin_after(step, np.flatnonzero(ended), ended)
        return step

    def _begin_after(self, step: Step, lanes: np.ndarray, ended: np.ndarray) -> None:
        if self.mode is AutoresetMode.SAME_STEP:
            for lane in lanes.tolist():
                infos = step.infos[lane]
                step.finals[lane] = infos.pop("final_obs"), infos.pop("final_info", {})
            return
        finals = {lane: (step.observations[lane], step.infos[lane]) for lane in lanes.tolist()}
        observations, infos = self.env.reset(options={"reset_mask": ended})
        fresh, fresh_infos = self._split(observations), infos_by_lane(infos, self.num_lanes)
        for lane, final in finals.items():
            step.finals[lane] = final
            step.observations[lane], step.infos[lane] = fresh[lane], fresh_infos[lane]

    def _reset_lane(self, lane: int, seed: int | None) -> tuple[Any, dict[str, Any]]:
        env = self.env.envs[lane]  # type: ignore[attr-defined]
        try:
            made: tuple[Any, dict[str, Any]] = env.reset(seed=seed)
        except Exception:  # an environment is the user's code, which may raise anything
            if not self.restart_failed:
                raise
            logger.exception("The environment of lane %d failed to reset; it is made anew", lane)
            return self._remake(lane, seed)
        check_reset(env, made)
        return made

    def _remake(self, lane: int, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        env: Any = self.env
        make: Callable[[], Any] = env.env_fns[lane]
        try:
            env.envs[lane].close()
        except Exception:  # the environment is broken, and its successor does not depend on it
            logger.warning("The failed environment of lane %d could not be closed", lane, exc_info=True)
        env.envs[lane] = make()
        fresh: tuple[Any, dict[str, Any]] = env.envs[lane].reset(seed=seed)
        return fresh

    def _split(self, observations: Any) -> list[Any]:
        if isinstance(observations, np.ndarray):
            return list(observations)
        return list(iterate(self.env.observation_space, observations))


def infos_by_lane(infos: Any, num_lanes: int) -> list[dict[str, Any]]:
    """Return a vector's infos, a dict of arrays with masks, as one dict per lane."""
    if not isinstance(infos, dict):
        return list(infos)
    split: list[dict[str, Any]] = [{} for _ in range(num_lanes)]
    for key, values in infos.items():
        if key.startswith("_") and key[1:] in infos:
            continue
        present = infos.get(f"_{key}", np.ones(num_lanes, bool))
        each = infos_by_lane(values, num_lanes) if isinstance(values, dict) else values
        for lane in np.flatnonzero(present).tolist():
            split[lane][key] = each[lane]
    return split
