"""Connectors: pipelines, the standard ones, running statistics over several runners."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
from rllib.tiny_module import Counting, config

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2, snake_case
from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.env_to_module import (
    FlattenObservations,
    FrameStackingEnvToModule,
    MeanStdFilter,
    PrevActionsPrevRewards,
)
from skate.rllib.core.columns import Columns
from skate.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.filter import Moments


def runner(*connectors: Any, **settings: Any) -> SingleAgentEnvRunner:
    made = config(Counting, num_envs_per_env_runner=2, env_config={"length": 5}, **settings)
    made._env_to_module_connector = lambda env, spaces, device: [make() for make in connectors]
    return SingleAgentEnvRunner(config=made)


class Twice(ConnectorV2):
    """Doubles observations in the batch."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_batch_item(batch, Columns.OBS, episode.get_observations(-1) * 2, episode)
        return batch


def test_a_connector_of_the_user_changes_what_the_module_sees() -> None:
    plain, doubled = runner(), runner(Twice)
    assert plain.samples_columns and not doubled.samples_columns
    one, other = plain.sample_rollout(12), doubled.sample_rollout(12)
    assert other.columns[Columns.OBS][:, 0, 1].tolist() == [0, 2, 4, 6, 8, 0, 2, 4, 6, 8, 0, 2]
    assert other.next_obs[:, 0, 1].tolist() == [2 * at for at in one.next_obs[:, 0, 1]]


def test_frames_are_stacked_over_chunks_and_not_over_episodes() -> None:
    stacking = runner(lambda: FrameStackingEnvToModule(num_frames=3))
    assert stacking.module.layer.in_features == 9
    rollouts = [stacking.sample_rollout(4) for _ in range(2)]
    seen = np.concatenate([rollout.columns[Columns.OBS] for rollout in rollouts])[:, 0]
    assert seen[:, [1, 4, 7]].tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 0, 0], [0, 0, 1], [0, 1, 2],
    ]  # fmt: skip
    after = np.concatenate([rollout.next_obs for rollout in rollouts])[:, 0]
    assert after[4, [1, 4, 7]].tolist() == [3, 4, 5], (
        "the last frames of the episode, not the first of the next"
    )


def test_frames_of_whole_episodes_for_a_learner() -> None:
    episode = SingleAgentEpisode(observation_space=gym.spaces.Box(0, 9, (1,), np.float32))
    episode.add_env_reset(np.array([1.0]))
    for at in (2.0, 3.0):
        episode.add_env_step(np.array([at]), 0, 0.0)
    stack = FrameStackingEnvToModule(num_frames=2, as_learner_connector=True)
    batch = stack(rl_module=None, batch={}, episodes=[episode])
    assert batch["obs"][(episode.id_,)][0].tolist() == [[0, 1], [1, 2]]


def test_previous_actions_and_rewards_stand_beside_the_observation() -> None:
    made = runner(lambda: PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=1))
    rollout = made.sample_rollout(7)
    seen, acted = rollout.columns[Columns.OBS][:, 0], rollout.columns[Columns.ACTIONS][:, 0]
    assert seen.shape == (7, 3 + 4 + 1)
    assert seen[:, -1].tolist() == [0, 1, 2, 3, 4, 0, 1]
    for at in range(2, 5):
        assert seen[at, 3:7].tolist() == np.eye(2)[acted[at - 2 : at]].reshape(-1).tolist()
    assert seen[5, 3:7].tolist() == [0, 0, 0, 0]


def test_flattening_by_key_and_without_some() -> None:
    space = gym.spaces.Dict(
        {"z": gym.spaces.Discrete(3), "a": gym.spaces.Box(0, 9, (2, 2)), "drop": gym.spaces.Discrete(2)}
    )
    flat = FlattenObservations(space, gym.spaces.Discrete(2), keys_to_remove=["drop"])
    assert flat.observation_space == gym.spaces.Box(
        np.zeros(7, np.float32), np.array([9, 9, 9, 9, 1, 1, 1], np.float32)
    )
    episode = SingleAgentEpisode(observation_space=space)
    episode.add_env_reset({"z": 2, "a": np.array([[1.0, 2.0], [3.0, 4.0]]), "drop": 1})
    flat(rl_module=None, batch={}, episodes=[episode])
    assert episode.get_observations(-1).tolist() == [1, 2, 3, 4, 0, 0, 1]


def test_running_statistics_agree_with_numpy_and_merge_exactly() -> None:
    numbers = np.random.default_rng(0).normal(3, 2, (60, 4))
    whole, parts = Moments.empty((4,)), [Moments.empty((4,)) for _ in range(3)]
    for at, row in enumerate(numbers):
        whole.push(row[None])
        parts[at % 3].push(row[None])
    merged = parts[0].merge(parts[1]).merge(parts[2])
    for stat in (whole, merged):
        np.testing.assert_allclose(stat.mean, numbers.mean(0))
        np.testing.assert_allclose(stat.deviation, numbers.std(0, ddof=1))


def test_filters_of_several_runners_count_everything_once() -> None:
    space = gym.spaces.Box(-100, 100, (2,), np.float32)
    filters = [MeanStdFilter(space, gym.spaces.Discrete(2)) for _ in range(2)]
    dice = np.random.default_rng(1)
    seen: list[np.ndarray] = []
    for _ in range(4):
        for each in filters:
            for _ in range(5):
                seen.append(dice.normal(5, 3, 2))
                episode = SingleAgentEpisode()
                episode.add_env_reset(seen[-1])
                each(rl_module=None, batch={}, episodes=[episode])
        state = filters[0].merge_states([each.get_state() for each in filters])
        for each in filters:
            each.set_state(state)
    found = filters[0]._seen[(None,)]
    assert found.count == len(seen) == 40
    np.testing.assert_allclose(found.mean, np.mean(seen, 0))
    np.testing.assert_allclose(found.deviation, np.std(seen, 0, ddof=1))


def test_filtered_observations_stay_filtered_in_episodes_and_columns() -> None:
    made = runner(MeanStdFilter)
    rollout = made.sample_rollout(40)
    assert abs(float(rollout.columns[Columns.OBS][5:, :, 1].mean())) < 0.7
    episode = made.sample(num_timesteps=20)[0]
    assert float(np.abs(episode.get_observations()).max()) < 3
    other = runner(MeanStdFilter)
    other.set_state(made.get_state())
    assert (
        other._env_to_module["MeanStdFilter"][0]._seen[(None,)].count
        == made._env_to_module[0]._seen[(None,)].count
    )


def test_pipelines_are_changed_by_name_or_class() -> None:
    class Last(Twice):
        pass

    pipe = ConnectorPipelineV2(gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2), connectors=[Twice()])
    pipe.append(Last())
    pipe.insert_before(Last, MeanStdFilter())
    pipe.insert_after("Twice", FrameStackingEnvToModule(num_frames=2))
    pipe.prepend(FlattenObservations())
    names = ["FlattenObservations", "Twice", "FrameStackingEnvToModule", "MeanStdFilter", "Last"]
    assert [type(each).__name__ for each in pipe.connectors] == names
    assert pipe.observation_space.shape == (4,) and pipe.observation_space.high[0] == 10
    pipe.remove("MeanStdFilter")
    with pytest.raises(ValueError, match="no connector 'MeanStdFilter'.*Twice"):
        pipe.insert_before("MeanStdFilter", Last())
    assert snake_case("FrameStackingEnvToModule") == "frame_stacking_env_to_module"


def test_items_are_changed_in_place_and_errors_say_what_to_do() -> None:
    episode = SingleAgentEpisode(id_="x")
    batch: dict[str, Any] = {}
    ConnectorV2.add_n_batch_items(batch, "a", [1, 2], 2, episode)
    ConnectorV2.add_n_batch_items(batch, "b", [10, 20], 2, episode)
    ConnectorV2.foreach_batch_item_change_in_place(
        batch, ["a", "b"], lambda items, *ids: (sum(items), ids[0])
    )
    assert batch == {"a": {("x",): [11, 22]}, "b": {("x",): ["x", "x"]}}
    with pytest.raises(ValueError, match="no columns"):
        ConnectorV2.foreach_batch_item_change_in_place(batch, "c", lambda item, *ids: item)
    with pytest.raises(ValueError, match="num_items=3"):
        ConnectorV2.add_n_batch_items(batch, "a", [1], 3, episode)
    with pytest.raises(ValueError, match="return a ConnectorV2"):
        runner(lambda: 5)
