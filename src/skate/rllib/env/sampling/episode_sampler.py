"""The general way to sample: an episode per lane, callbacks, and any connectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from skate.rllib.callbacks.make import EPISODE_MOMENTS
from skate.rllib.core.columns import Columns
from skate.rllib.env.lanes import Step
from skate.rllib.env.nested import batch as put_together
from skate.rllib.env.nested import map_nested, unbatch
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.env_to_module import EnvToModule
from skate.rllib.env.sampling.lane_episode import Acted, LaneEpisode
from skate.rllib.env.sampling.module_to_env import ModuleToEnv
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils import metrics as names


class EpisodeSampler:
    """Samples episodes from the lanes of a runner.

    Args:
        runner: The runner that the environments, the module and the connectors belong to.
    """

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.episodes: list[Any] = []
        self.chunks: dict[str, list[SingleAgentEpisode]] = {}
        self.shared: dict[str, Any] = {"generator": runner._generator}
        self.to_module: dict[str, Any] | None = None
        self.observations: EnvToModule
        self.actions: ModuleToEnv
        #: The steps of the present sample, and the episodes that read them.
        self.taken: list[Acted] = []
        self._attached: list[LaneEpisode] = []
        self._calls: dict[str, list[Callable[..., Any]]] = {}

    def forget(self) -> None:
        """Drop the running episodes: the lanes moved on without them."""
        self.episodes = []
        self.to_module = None

    def get_state(self) -> dict[str, Any]:
        """Return the running episodes."""
        return {"episodes": self.episodes, "chunks": self.chunks, "to_module": self.to_module}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from another sampler's episodes."""
        self.episodes, self.chunks, self.to_module = state["episodes"], state["chunks"], state["to_module"]

    def _open(self, explore: bool, anew: bool) -> None:
        """Prepare a sample: what is called when, and which connectors run at once, is decided for all of its steps."""
        runner = self.runner
        self._calls = {moment: runner._callbacks.calls(moment) for moment in EPISODE_MOMENTS}
        self.observations = EnvToModule(runner, self.shared)
        self.actions = ModuleToEnv(runner, self.shared)
        self._close()
        self.taken, self._attached = [], []
        if anew or runner._needs_initial_reset or not self.episodes:
            self.reset(explore)
            return
        for lane, episode in enumerate(self.episodes):
            self._attached.append(LaneEpisode.attach(episode, self.taken, lane))

    def _close(self) -> None:
        """Make plain episodes of those of the present sample."""
        for episode in self._attached:
            episode.detach()
        self._attached = []

    def reset(self, explore: bool) -> None:
        """Begin a new episode in every lane."""
        runner = self.runner
        self.chunks.clear()
        self.episodes = [self._new(lane) for lane in range(runner.num_envs)]
        with runner.metrics.log_time(names.ENV_RESET_TIMER):
            observations, infos = runner._lanes.reset(runner._lane_seeds())
        runner._needs_initial_reset = False
        runner._meter.begin()
        for episode, observation, info in zip(self.episodes, observations, infos, strict=True):
            episode.begin(observation, info)
        self.to_module = self.observations.connect(self.episodes, explore)
        for lane in range(runner.num_envs):
            self._call("on_episode_start", lane)

    def _new(self, lane: int) -> LaneEpisode:
        env = self.runner.env
        made = LaneEpisode.attach(
            SingleAgentEpisode(
                observation_space=env.single_observation_space, action_space=env.single_action_space
            ),
            self.taken,
            lane,
        )
        self._attached.append(made)
        self._call("on_episode_created", lane, made)
        return made

    def _call(self, moment: str, lane: int, episode: SingleAgentEpisode | None = None, **kwargs: Any) -> None:
        runner = self.runner
        for call in self._calls[moment]:
            call(
                episode=self.episodes[lane] if episode is None else episode,
                env_runner=runner,
                metrics_logger=runner.metrics,
                env=runner.env.unwrapped,
                env_index=lane,
                rl_module=runner.module,
                **kwargs,
            )

    @torch.no_grad()
    def _act(
        self, explore: bool, random_actions: bool, steps: int
    ) -> tuple[Sequence[Any], Any, dict[str, Sequence[Any]], Any]:
        """Return the actions to keep, those for the environments, the other outputs, and what knows log-probabilities."""
        runner = self.runner
        if random_actions or runner.module is None:
            drawn = runner._random_actions(runner.num_envs)
            return unbatch(drawn), unbatch(runner._action_plan.for_env(drawn)), {}, None
        t, growth = runner._lifetime_and_growth()
        with runner.metrics.log_time(names.RLMODULE_INFERENCE_TIMER):
            out = self.actions.forward(self.to_module or {}, explore, t + steps * (growth // runner.num_envs))
        return self.actions.choose(out, self.episodes, explore)

    def _advance(
        self, explore: bool, random_actions: bool, steps: int, limit: int | None = None
    ) -> tuple[Acted, list[LaneEpisode]]:
        """Step all lanes once.

        Args:
            explore: True to explore.
            random_actions: True to act at random.
            steps: Steps of all lanes since the call of the runner.
            limit: Stop after so many ended episodes; the lanes have to be reset then.

        Returns:
            The step, and the episodes that ended.
        """
        runner = self.runner
        actions, for_env, outputs, source = self._act(explore, random_actions, steps)
        with runner.metrics.log_time(names.ENV_STEP_TIMER):
            as_is = runner._lanes.is_direct or isinstance(for_env, np.ndarray)
            step = runner._lanes.step(for_env if as_is else put_together(for_env))
        runner._meter.add(step.rewards, step.stepped)
        acted = Acted(self.to_module or {}, outputs, actions, step, runner._weights_seq_no, source)
        self.taken.append(acted)
        fresh = self._take(step)
        self.to_module = acted.finals = self.observations.connect(self.episodes, explore)
        ended = self._end(step, fresh, limit)
        if step.finals and len(ended) != limit:
            self._begin(step, acted.finals, explore)
        return acted, ended

    def _take(self, step: Step) -> list[int]:
        """Let the episodes have a step of all lanes, and return the lanes that only reset in it."""
        count = len(self.taken)
        fresh: list[int] = []
        for lane, episode in enumerate(self.episodes):
            if step.stepped is not None and not step.stepped[lane]:
                if lane in step.restarted:
                    self.episodes[lane] = episode = self._new(lane)
                    self.runner._meter.begin(lane)
                episode.begin(step.observations[lane], step.infos[lane])
                fresh.append(lane)
                continue
            episode.t += 1
            episode.until = count
            if step.terminateds[lane] or step.truncateds[lane]:
                episode.is_terminated = bool(step.terminateds[lane])
                episode.is_truncated = bool(step.truncateds[lane])
        return fresh

    def _end(self, step: Step, fresh: list[int], limit: int | None) -> list[LaneEpisode]:
        ended: list[LaneEpisode] = []
        for lane, episode in enumerate(self.episodes):
            self._call("on_episode_start" if lane in fresh else "on_episode_step", lane)
            if not episode.is_done:
                continue
            self._call("on_episode_end", lane, prev_episode_chunks=self.chunks.pop(episode.id_, []))
            ended.append(episode)
            self.runner._meter.end(lane)
            self.episodes[lane] = self._new(lane)
            if len(ended) == limit:
                break
        return ended

    def _begin(self, step: Step, after: dict[str, Any], explore: bool) -> None:
        """Put the first observations of new episodes into the next batch, in the place of the last ones of the old."""
        lanes = sorted(step.finals)
        for lane in lanes:
            self.episodes[lane].begin(step.observations[lane], step.infos[lane])
        first = self.observations.connect([self.episodes[lane] for lane in lanes], explore)

        def put(last: Any, new: Any) -> Any:
            if not torch.is_tensor(last):
                return last
            replaced = last.clone()
            replaced[lanes] = new
            return replaced

        if after:
            self.to_module = map_nested(put, after, first)
        for lane in lanes:
            self._call("on_episode_start", lane)

    def sample(
        self,
        num_timesteps: int | None,
        num_episodes: int | None,
        explore: bool,
        random_actions: bool,
        force_reset: bool,
    ) -> tuple[list[SingleAgentEpisode], int]:
        """Sample steps or whole episodes; see `SingleAgentEnvRunner.sample`.

        Returns:
            The episodes, and the number of steps.
        """
        runner = self.runner
        self._open(explore, anew=force_reset or num_episodes is not None)
        steps = 0
        done: list[LaneEpisode] = []
        while steps < num_timesteps if num_timesteps is not None else len(done) < (num_episodes or 0):
            limit = None if num_episodes is None else num_episodes - len(done)
            acted, ended = self._advance(explore, random_actions, steps, limit)
            stepped = acted.step.stepped
            steps += runner.num_envs if stepped is None else sum(stepped)
            done.extend(ended)
        if num_episodes is not None:
            self.forget()
            runner._needs_initial_reset = False
        samples: list[SingleAgentEpisode] = [*done, *(self._cut() if num_timesteps is not None else [])]
        self._close()
        if getattr(runner.config, "episodes_to_numpy", True):
            samples = [episode.to_numpy() for episode in samples]
        return samples, steps

    def _cut(self) -> list[SingleAgentEpisode]:
        """Return the running chunks that have steps, and continue in new ones."""
        wanted = [getattr(each, "num_steps_back", 0) for each in self.runner._env_to_module.connectors]
        lookback = max([getattr(self.runner.config, "episode_lookback_horizon", 1), *wanted])
        running = self.episodes
        self.episodes = [episode.cut(lookback) if episode.is_reset else episode for episode in running]
        chunks = [episode for episode in running if len(episode)]
        for chunk in chunks:
            self.chunks.setdefault(chunk.id_, []).append(chunk)
        return chunks

    def sample_rollout(
        self,
        num_steps: int,
        explore: bool,
        random_actions: bool = False,
        shown: list[SingleAgentEpisode] | None = None,
    ) -> Rollout:
        """Sample a fragment of columns through the connectors.

        Args:
            num_steps: Steps of each lane.
            explore: True to explore.
            random_actions: True to act at random.
            shown: Gets the episodes and chunks of the fragment, if a callback looks at them.
        """
        runner = self.runner
        self._open(explore, anew=False)
        state = (self.to_module or {}).get(Columns.STATE_IN)
        state_in = None if state is None else map_nested(lambda value: value.cpu().numpy().copy(), state)
        taken, done = [], []
        for index in range(num_steps):
            acted, ended = self._advance(explore, random_actions, index * runner.num_envs)
            taken.append(acted)
            done += ended
        made = columns_of(taken, state_in, runner.num_envs)
        chunks = self._cut()
        self.chunks.clear()
        self._close()
        if shown is not None:
            shown += [*done, *chunks]
        return made


def columns_of(taken: list[Acted], state_in: dict[str, Any] | None, num_lanes: int) -> Rollout:
    """Return steps of all lanes as columns; observations are those that the module saw."""
    shape = (len(taken), num_lanes)
    squeeze = state_in is not None

    def observed(batch: dict[str, Any]) -> np.ndarray:
        array: np.ndarray = batch[Columns.OBS].cpu().numpy()
        return array[:, 0] if squeeze else array

    complete_logp(taken)
    columns = {
        Columns.OBS: np.stack([observed(each.seen) for each in taken]),
        Columns.REWARDS: np.array([each.step.rewards for each in taken], np.float32),
        Columns.TERMINATEDS: np.array([each.step.terminateds for each in taken], bool),
        Columns.TRUNCATEDS: np.array([each.step.truncateds for each in taken], bool),
        Columns.ACTIONS: np.stack([rows_of(each.actions) for each in taken]),
    }
    for key in taken[0].outputs:
        if key != Columns.STATE_OUT:
            columns[key] = np.stack([rows_of(each.outputs[key]) for each in taken])
    valid = np.ones(shape, bool)
    restarted = 0
    for index, each in enumerate(taken):
        if each.step.stepped is not None:
            valid[index] = each.step.stepped
        for lane in each.step.restarted:
            restarted += 1
            if index and valid[index - 1, lane] and not columns[Columns.TERMINATEDS][index - 1, lane]:
                columns[Columns.TRUNCATEDS][index - 1, lane] = True
    following = np.stack([observed(each.finals) for each in taken])
    for index, each in enumerate(taken):
        for lane in each.step.restarted:
            if index:
                following[index - 1, lane] = columns[Columns.OBS][index, lane]
    return Rollout(columns, valid, following, state_in, 0, restarted)


def rows_of(items: Any) -> np.ndarray:
    """Return one array of the items of all lanes."""
    return items if isinstance(items, np.ndarray) else np.stack(items)


def complete_logp(taken: list[Acted]) -> None:
    """Compute the log-probabilities of all steps that miss them in one pass."""
    missing = [each for each in taken if each.source is not None]
    if not missing:
        return
    inputs = np.stack([each.outputs[Columns.ACTION_DIST_INPUTS] for each in missing])
    source: Any = missing[0].source
    found = source.logp(inputs, np.stack([each.actions for each in missing]))
    for each, logp in zip(missing, found, strict=True):
        each.outputs[Columns.ACTION_LOGP], each.source = logp, None
