"""Learning from episodes: the connectors' rows, and the same numbers as from fragments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.learner import (
    AddColumnsFromEpisodesToTrainBatch,
    AddInfosFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddOneTsToEpisodesAndTruncate,
    BatchIndividualItems,
    ComputeReturnsToGo,
    GeneralAdvantageEstimation,
    NumpyToTensor,
)
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.torch.torch_learner import TorchLearner
from skate.rllib.env.multi_agent_env import make_multi_agent
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.lambda_defaultdict import LambdaDefaultDict
from skate.rllib.utils.schedules.scheduler import Scheduler

BOX = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
#: What steps have besides observations, actions, rewards and ends.
OUTPUTS = (Columns.ACTION_LOGP, Columns.ACTION_DIST_INPUTS)


def config_of(kind: Any = PPOConfig, **model: Any) -> Any:
    made = kind().environment(observation_space=BOX, action_space=gym.spaces.Discrete(2))
    return made.debugging(seed=3).rl_module(model_config={"fcnet_hiddens": [16], **model})


def rollout_of(seed: int, steps: int, lanes: int, memory: Any = None) -> Rollout:
    """Random steps that hang together: each observation is the one after the step before, unless that ended."""
    dice = np.random.default_rng(seed)
    ends = dice.random((2, steps, lanes)) < 0.15
    following = dice.uniform(-1, 1, (steps, lanes, 3)).astype(np.float32)
    seen = dice.uniform(-1, 1, (steps, lanes, 3)).astype(np.float32)
    seen[1:] = np.where((ends[0] | ends[1])[:-1, :, None], seen[1:], following[:-1])
    inputs = dice.normal(size=(steps, lanes, 2)).astype(np.float32)
    actions = dice.integers(0, 2, (steps, lanes))
    logp = torch.log_softmax(torch.as_tensor(inputs), -1).numpy()
    return Rollout(
        columns={
            Columns.OBS: seen,
            Columns.ACTIONS: actions,
            Columns.REWARDS: dice.normal(size=(steps, lanes)).astype(np.float32),
            Columns.TERMINATEDS: ends[0],
            Columns.TRUNCATEDS: ends[1] & ~ends[0],
            Columns.ACTION_LOGP: np.take_along_axis(logp, actions[..., None], -1)[..., 0],
            Columns.ACTION_DIST_INPUTS: inputs,
        },
        valid=np.ones((steps, lanes), bool),
        next_obs=following,
        state_in=memory,
    )


def episodes_of(rollout: Rollout, states: Any = None) -> list[SingleAgentEpisode]:
    """The same steps as episodes, lane by lane."""
    columns, found = rollout.columns, []
    for lane in range(rollout.num_lanes):
        episode = None
        for t in range(len(rollout.valid)):
            if episode is None:
                episode = SingleAgentEpisode(observation_space=BOX)
                episode.add_env_reset(columns[Columns.OBS][t, lane])
                found.append(episode)
            outputs = {name: columns[name][t, lane] for name in OUTPUTS}
            if states is not None:
                outputs[Columns.STATE_OUT] = {key: value[t, lane] for key, value in states.items()}
            episode.add_env_step(
                rollout.next_obs[t, lane],
                columns[Columns.ACTIONS][t, lane],
                columns[Columns.REWARDS][t, lane],
                terminated=bool(columns[Columns.TERMINATEDS][t, lane]),
                truncated=bool(columns[Columns.TRUNCATEDS][t, lane]),
                extra_model_outputs=outputs,
            )
            episode = None if episode.is_done else episode
    return found


def by_observation(batch: dict[str, Any]) -> dict[str, np.ndarray]:
    """The rows of a batch in an order of their own."""
    order = np.lexsort(batch[Columns.OBS].reshape(-1, 3).numpy().T)
    return {
        name: column.reshape(
            -1, *column.shape[2:] if Columns.LOSS_MASK in batch else column.shape[1:]
        ).numpy()[order]
        for name, column in batch.items()
        if torch.is_tensor(column) and name != Columns.SEQ_LENS
    }


def with_agents(config: Any, agents: int) -> Any:
    """Return a configuration for one agent, or with CartPoles for several, each with a policy of its own."""
    if not agents:
        return config
    config = config.environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": agents})
    return config.multi_agent(
        policies={"p0", "p1"}, policy_mapping_fn=lambda agent, episode, **kw: f"p{agent}"
    )


@pytest.mark.parametrize(
    "settings", [{}, {"lambda_": 0.9, "gamma": 0.9}, {"use_gae": False, "use_critic": False}]
)
def test_episodes_give_the_rows_of_fragments(settings: dict[str, Any]) -> None:
    learner = config_of().training(**settings).build_learner()
    rollout = rollout_of(1, steps=20, lanes=3)
    episodes = episodes_of(rollout)
    lengths = [len(each) for each in episodes]
    fast = by_observation(learner.make_batches([rollout])["default_policy"])
    general = by_observation(learner.make_batches(episodes=episodes)["default_policy"])
    assert set(fast) <= set(general) and len(fast[Columns.OBS]) == 60
    # The end of a chunk counts as a truncation among episodes.
    for name in set(fast) - {Columns.TRUNCATEDS}:
        np.testing.assert_allclose(fast[name], general[name], atol=1e-5, err_msg=name)
    assert [len(each) for each in episodes] == lengths, "the learner changed the episodes it was given"


def test_updates_are_the_same_from_episodes_and_from_fragments() -> None:
    settings = {"num_epochs": 3, "minibatch_size": 8, "shuffle_batch_per_epoch": True}
    weights = []
    for given in ("rollouts", "episodes"):
        learner = config_of().training(lr=0.01).build_learner()
        for seed in (1, 2):
            rollout = rollout_of(seed, steps=40, lanes=1)
            learner.update(**{given: [rollout] if given == "rollouts" else episodes_of(rollout)}, **settings)
        weights.append(learner.get_state(components="rl_module")["rl_module"]["default_policy"])
    before = config_of().build_learner().get_state(components="rl_module")["rl_module"]["default_policy"]
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=2e-5, err_msg=name)
    assert any(not np.allclose(value, weights[0][name], atol=1e-3) for name, value in before.items())


class BuiltApart(PPOTorchLearner):
    """Leaves out what PPO's ``build()`` does, and does it itself, as programs for Ray do."""

    def build(self) -> None:
        TorchLearner.build(self)
        self.entropy_coeff_schedulers_per_module = LambdaDefaultDict(lambda module_id: Scheduler(0.0))
        self.curr_kl_coeffs_per_module = LambdaDefaultDict(lambda module_id: self._get_tensor_variable(0.2))
        self._learner_connector.prepend(AddOneTsToEpisodesAndTruncate())
        self._learner_connector.append(DoubledAdvantages(gamma=0.99, lambda_=1.0))


class DoubledAdvantages(GeneralAdvantageEstimation):
    def __call__(self, **given: Any) -> Any:
        batch = super().__call__(**given)
        batch["default_policy"][Columns.ADVANTAGES] *= 2
        return batch


def test_a_learner_that_leaves_out_the_build_of_its_algorithm_has_its_own_connectors_alone() -> None:
    episodes = episodes_of(rollout_of(1, steps=10, lanes=2))
    plain, own = config_of().build_learner(), config_of().training(learner_class=BuiltApart).build_learner()
    assert own.has_own_connectors and not plain.has_own_connectors
    mine, theirs = (each.make_batches(episodes=episodes)["default_policy"] for each in (own, plain))
    for name, factor in ((Columns.ADVANTAGES, 2.0), (Columns.VALUE_TARGETS, 1.0)):
        torch.testing.assert_close(mine[name], theirs[name] * factor)
    results = own.update(episodes=episodes, num_epochs=2, minibatch_size=8)
    assert "mean_kl_loss" in results["default_policy"]


def test_sequences_of_episodes_are_those_of_fragments() -> None:
    learner = config_of(use_lstm=True, lstm_cell_size=8, max_seq_len=4, vf_share_layers=True).build_learner()
    module = learner.module["default_policy"].unwrapped()
    initial = {
        key: torch.stack([torch.as_tensor(value)] * 2) for key, value in module.get_initial_state().items()
    }
    rollout = rollout_of(5, steps=11, lanes=2, memory={key: value.numpy() for key, value in initial.items()})
    states = {key: np.zeros((11, *value.shape), np.float32) for key, value in initial.items()}
    now = dict(initial)
    for t in range(11):
        seen = torch.as_tensor(rollout.columns[Columns.OBS][t])[:, None]
        with torch.no_grad():
            now = module.forward_exploration({Columns.OBS: seen, Columns.STATE_IN: now})[Columns.STATE_OUT]
        done = rollout.columns[Columns.TERMINATEDS][t] | rollout.columns[Columns.TRUNCATEDS][t]
        for key, value in now.items():
            states[key][t] = value.numpy()
        for lane in np.flatnonzero(done):
            for key, value in now.items():
                value[lane] = initial[key][lane]
    fast = learner.make_batches([rollout])["default_policy"]
    general = learner.make_batches(episodes=episodes_of(rollout, states))["default_policy"]
    assert general[Columns.OBS].shape == fast[Columns.OBS].shape and general[Columns.OBS].shape[1] == 4
    for key in ("h", "c"):
        first, other = (sorted(each[Columns.STATE_IN][key].sum((1, 2)).tolist()) for each in (fast, general))
        assert np.allclose(first, other, atol=1e-5)
    mine, theirs = (
        {
            name: batch[name][batch[Columns.LOSS_MASK]]
            for name in (Columns.OBS, Columns.ADVANTAGES, Columns.VALUE_TARGETS)
        }
        for batch in (fast, general)
    )
    left, right = by_observation(mine), by_observation(theirs)
    for name, column in left.items():
        np.testing.assert_allclose(column, right[name], atol=1e-5, err_msg=name)


def test_q_learning_takes_episodes() -> None:
    learner = config_of(DQNConfig).build_learner()
    rollout = rollout_of(4, steps=12, lanes=2)
    columns = {**rollout.columns, Columns.NEXT_OBS: rollout.next_obs}
    batch = learner.make_batches(episodes=episodes_of(rollout))["default_policy"]
    rows = by_observation(batch)
    order = np.lexsort(rollout.columns[Columns.OBS].reshape(-1, 3).T)
    for name in (Columns.NEXT_OBS, Columns.ACTIONS, Columns.REWARDS, Columns.TERMINATEDS):
        expected = columns[name].reshape(24, *columns[name].shape[2:])[order]
        np.testing.assert_allclose(rows[name], expected, err_msg=name)
    learner.update(episodes=episodes_of(rollout))


def test_connectors_add_what_they_name() -> None:
    first = SingleAgentEpisode(
        observations=[0.0, 1.0, 2.0], actions=[5, 6], rewards=[1.0, 2.0], infos=[{"at": 0}, {"at": 1}, {}],
        len_lookback_buffer=0,
    )  # fmt: skip
    second = SingleAgentEpisode(
        observations=[7.0, 8.0], actions=[9], rewards=[3.0], terminated=True, len_lookback_buffer=0
    )
    episodes = [first, second]
    batch: dict[str, Any] = {}
    made: list[ConnectorV2] = [
        AddNextObservationsFromEpisodesToTrainBatch(), ComputeReturnsToGo(gamma=0.5), AddInfosFromEpisodesToTrainBatch(),
        AddOneTsToEpisodesAndTruncate(), AddObservationsFromEpisodesToBatch(as_learner_connector=True),
        AddColumnsFromEpisodesToTrainBatch(), BatchIndividualItems(), NumpyToTensor(as_learner_connector=True),
    ]  # fmt: skip
    for connector in made:
        batch = connector(rl_module=None, batch=batch, episodes=episodes, shared_data={})
    assert batch.pop(Columns.INFOS) == [{"at": 0}, {"at": 1}, {}]
    assert {name: column.tolist() for name, column in batch.items()} == {
        "new_obs": [1.0, 2.0, 8.0], "returns_to_go": [2.0, 2.0, 3.0], "obs": [0.0, 1.0, 2.0, 7.0, 8.0],
        "actions": [5, 6, 6, 9, 9], "rewards": [1.0, 2.0, 0.0, 3.0, 0.0],
        "loss_mask": [True, True, False, True, False], "terminateds": [False, False, False, True, False],
        "truncateds": [False, True, False, False, False],
    }  # fmt: skip
    assert (len(first), first.is_truncated) == (3, True)
    assert (len(second), second.is_truncated, second.is_terminated) == (2, False, True)


class Doubled(ConnectorV2):
    """Doubles the rewards before advantages are made of them."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            self.add_n_batch_items(batch, Columns.REWARDS, episode.get_rewards() * 2, len(episode), episode)
        return batch


def test_an_own_connector_changes_what_is_learnt() -> None:
    rollout = rollout_of(1, steps=10, lanes=1)
    doubled = rollout_of(1, steps=10, lanes=1)
    doubled.columns[Columns.REWARDS] *= 2
    plain = config_of().build_learner()
    own = config_of().training(learner_connector=lambda observations, actions: Doubled()).build_learner()
    assert own.has_own_connectors and not plain.has_own_connectors
    expected = plain.make_batches([doubled])["default_policy"][Columns.VALUE_TARGETS]
    found = own.make_batches(episodes=episodes_of(rollout))["default_policy"][Columns.VALUE_TARGETS]
    np.testing.assert_allclose(expected.numpy(), found.numpy(), atol=1e-5)


@pytest.mark.parametrize("agents", [0, 2])
def test_an_algorithm_with_an_own_connector_learns_from_episodes(agents: int) -> None:
    seen: list[int] = []

    class Counting(ConnectorV2):
        def __call__(self, *, rl_module: Any, batch: Any, episodes: list[Any], **kwargs: Any) -> Any:
            seen.append(sum(len(episode) for episode in episodes))
            return batch

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(
            train_batch_size=64, num_epochs=2, minibatch_size=32, learner_connector=lambda *spaces: Counting()
        )
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )
    algorithm = with_agents(config, agents).build_algo()
    result = algorithm.train()
    algorithm.stop()
    # Each agent's chunk has one row more.
    assert len(seen) == 1 and seen[0] >= 64
    assert {"total_loss", "vf_loss"} <= set(result["learners"]["p0" if agents else "default_policy"])
    assert result["num_env_steps_sampled_lifetime"] == 64


def test_the_error_names_the_missing_connector() -> None:
    config = config_of().training(
        add_default_connectors_to_learner_pipeline=False,
        learner_connector=lambda *spaces: [
            AddObservationsFromEpisodesToBatch(as_learner_connector=True), AddColumnsFromEpisodesToTrainBatch(),
            BatchIndividualItems(), NumpyToTensor(), GeneralAdvantageEstimation(gamma=0.9, lambda_=1.0),
        ],
    )  # fmt: skip
    learner = config.build_learner()
    with pytest.raises(ValueError, match="AddOneTsToEpisodesAndTruncate"):
        learner.update(episodes=episodes_of(rollout_of(1, 4, 1)))


@pytest.mark.parametrize("agents", [0, 2])
def test_an_own_connector_sees_what_a_replay_buffer_draws(agents: int) -> None:
    drawn: list[list[int]] = []
    weighed: list[bool] = []

    class Zeroed(ConnectorV2):
        """Takes the rewards away, so that nothing but the present values is learnt."""

        def __call__(self, *, rl_module: Any, batch: Any, episodes: list[Any], **kwargs: Any) -> Any:
            drawn.append([len(episode) for episode in episodes])
            weighed.append(all("weights" in episode.extra_model_outputs for episode in episodes))
            for episode in episodes:
                self.add_n_batch_items(batch, Columns.REWARDS, [0.0], 1, episode)
            return batch

    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(
            train_batch_size=16,
            num_steps_sampled_before_learning_starts=30,
            learner_connector=lambda *spaces: Zeroed(),
            target_network_update_freq=10**6,
            lr=0.0,
        )
        .rl_module(model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": []})
        .reporting(min_sample_timesteps_per_iteration=60)
        .debugging(seed=1)
    )
    algorithm = with_agents(config, agents).build_algo()
    learned = algorithm.train()["learners"]["p0" if agents else "default_policy"]
    assert drawn and all(each == [1] * (32 if agents else 16) for each in drawn) and all(weighed)
    # Without rewards of 1, values that are hardly above zero are off by little.
    assert learned["td_error_mean"] < 0.5
    algorithm.stop()
