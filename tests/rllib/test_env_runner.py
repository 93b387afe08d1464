"""The runner of one agent: columns and episodes, seeds, resets, failures, callbacks."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rllib.tiny_module import Counting, config

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.callbacks.callbacks import RLlibCallback
from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.env_to_module import MeanStdFilter
from skate.rllib.connectors.env_to_module.defaults import NumpyToTensor
from skate.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from skate.rllib.core.columns import Columns
from skate.rllib.env.env_runner import StepFailedRecreateEnvError
from skate.rllib.env.episode_buffer import equal
from skate.rllib.env.lanes import Lanes
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.env_to_module import EnvToModule
from skate.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.error import EnvError
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger


def digest(rollout: Rollout) -> str:
    found = hashlib.sha256()
    for key in sorted(rollout.columns):
        found.update(key.encode() + np.ascontiguousarray(rollout.columns[key]).tobytes())
    return found.update(rollout.next_obs.tobytes()) or found.hexdigest()


class Silent(RLlibCallback):
    """Makes a runner keep episodes."""

    def on_episode_step(self, **kwargs: Any) -> None:
        pass


class Boxes(gym.Env[Any, Any]):
    """Nested observations and bounded actions."""

    def __init__(self, settings: Any = None) -> None:
        self.observation_space = gym.spaces.Dict({
            "b": gym.spaces.Discrete(3, start=1), "a": gym.spaces.Box(-1, 1, (2, 2), np.float64),
            "c": gym.spaces.Tuple([gym.spaces.MultiBinary(2), gym.spaces.MultiDiscrete([2, 3])]),
        })  # fmt: skip
        self.action_space = gym.spaces.Box(np.array([0, -4], np.float32), np.array([10, 4], np.float32))
        self.at = 0
        self.taken: list[np.ndarray] = []

    def observe(self) -> Any:
        return self.observation_space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.at = 0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.taken.append(action)
        self.at += 1
        return self.observe(), float(action.sum()), False, self.at == 7, {}


@pytest.mark.parametrize("env", ["CartPole-v1", Counting, Boxes])
@pytest.mark.parametrize("stateful", [False, True])
def test_the_fast_way_and_the_general_one_give_the_same_bits(env: Any, stateful: bool) -> None:
    fast = SingleAgentEnvRunner(config=config(env, stateful))
    general = SingleAgentEnvRunner(config=config(env, stateful, callbacks_class=Silent))
    assert fast.samples_columns and not general.samples_columns
    for explore in (True, True, False):
        one, other = fast.sample_rollout(25, explore), general.sample_rollout(25, explore)
        one.check()
        other.columns.pop("weights_seq_no", None)
        assert one.columns.keys() == other.columns.keys()
        for key in one.columns:
            np.testing.assert_array_equal(one.columns[key], other.columns[key], err_msg=key)
        np.testing.assert_array_equal(one.next_obs, other.next_obs)
        np.testing.assert_array_equal(one.valid, other.valid)
        assert (one.state_in is None) == (not stateful)
        if stateful:
            np.testing.assert_array_equal(one.state_in["h"], other.state_in["h"])  # type: ignore[index]
    first, second = fast.get_metrics(), general.get_metrics()
    for key in ("episode_return_mean", "episode_len_max", "num_episodes", "num_env_steps_sampled_lifetime"):
        assert first[key].peek() == second[key].peek(), key
    fast.stop()
    general.stop()


class Loose(Counting):
    """Observes lists of numbers in every second step, and arrays of longer numbers in others."""

    more: tuple[float, ...] = ()

    def _observe(self) -> Any:
        seen = [*super()._observe().tolist(), *self.more]
        return np.array(seen) if self.total % 2 else seen

    def step(self, action: int) -> Any:
        observed, *others = super().step(action)
        return self._observe(), *others


def test_observations_that_are_no_arrays_of_their_space_are_rows_too() -> None:
    one, other = (SingleAgentEnvRunner(config=config(env)) for env in (Loose, Counting))
    np.testing.assert_array_equal(one.sample_rollout(9).next_obs, other.sample_rollout(9).next_obs)
    one.env.envs[2].more = (1.0,)
    with pytest.raises(ValueError):
        one.sample_rollout(9)
    one.stop()
    other.stop()


class Rewriting(SingleAgentObservationPreprocessor):
    """Looks at the episode as well, so that its steps have to be there."""

    def recompute_output_observation_space(self, observations: Any, actions: Any) -> Any:
        return observations

    def preprocess(self, observation: Any, episode: Any) -> Any:
        if len(episode) and self.reads:
            assert len(episode.get_rewards()) == len(episode)
        return observation * observation.dtype.type(0.5)

    reads = False


class Reading(Rewriting):
    reads = True


class ByHand(NumpyToTensor):
    """A default connector under another name: all of the pipeline is run connector by connector then."""


class OneByOne(MeanStdFilter):
    """A filter that is given its observations one after the other."""

    def preprocess(self, observation: Any, episode: Any) -> Any:
        return super().preprocess(observation, episode)


class Newest(ConnectorV2):
    """Rewrites the newest observation by what is newest, without a look at earlier steps."""

    fills = False

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes):
            if self.fills:
                assert len(episode.get_observations()) == len(episode) + 1
            observation = episode.get_observations(-1)
            if len(episode):
                newest = episode.get_rewards(-1), episode.get_actions(-1)
                observation = observation * np.float32(0.5 + newest[0] / 4 + int(newest[1]) / 8)
            episode.set_observations(at_indices=-1, new_data=observation)
            if self.fills:
                assert episode.get_observations(-1) is observation
                assert not len(episode) or newest == (episode.get_rewards()[-1], episode.get_actions()[-1])
                assert len(episode.get_observations(-1, neg_index_as_lookback=True, fill=0.0)) == 4
        return batch


class NewestOfAll(Newest):
    """Reads all steps before and after, so that none are left to take."""

    fills = True


@pytest.mark.parametrize(
    ("at_once", "alone"),
    [
        (Newest, NewestOfAll),
        (Rewriting, Rewriting),
        (Reading, Rewriting),
        (MeanStdFilter, OneByOne),
        (None, None),
    ],
)
def test_connectors_at_once_and_one_by_one_give_the_same_bits(at_once: Any, alone: Any) -> None:
    def made(connector: Any) -> SingleAgentEnvRunner:
        build = None if connector is None else lambda env, spaces, device: connector()
        return SingleAgentEnvRunner(
            config=config("CartPole-v1", callbacks_class=Silent, _env_to_module_connector=build)
        )

    quick, slow = made(at_once), made(alone)
    slow._env_to_module.remove("NumpyToTensor")
    slow._env_to_module.append(ByHand(device=slow._device))
    for explore in (True, True, False):
        one, other = quick.sample_rollout(60, explore), slow.sample_rollout(60, explore)
        assert not quick.samples_columns and digest(one) == digest(other)
    assert EnvToModule(quick, {}).is_direct and not EnvToModule(slow, {}).is_direct
    for one, other in zip(quick.sample(num_timesteps=100), slow.sample(num_timesteps=100), strict=True):
        ours, theirs = one.get_state(), other.get_state()
        for name in ("observations", "actions", "rewards", "infos"):
            assert equal(ours[name]["data"], theirs[name]["data"]), name
        assert ours["extra_model_outputs"].keys() == theirs["extra_model_outputs"].keys()
        for name, column in ours["extra_model_outputs"].items():
            assert equal(column["data"], theirs["extra_model_outputs"][name]["data"]), name


def test_episodes_are_plain_after_a_sample_and_whole_during_it() -> None:
    held: list[Any] = []

    class Keeping(RLlibCallback):
        def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
            if len(episode) == 3:
                copied = pickle.loads(pickle.dumps(episode))
                assert type(copied) is SingleAgentEpisode and len(copied.get_rewards()) == 3
                copied.validate()
                held.append(episode)

    runner = SingleAgentEnvRunner(config=config(Counting, env_config={"length": 5}, callbacks_class=Keeping))
    runner.sample_rollout(4)
    # What a callback kept from a sample is whole, though nobody looked at it while it ran.
    assert held and all(type(each) is SingleAgentEpisode and len(each.get_actions()) == 4 for each in held)
    pickle.dumps(runner._episodes.get_state())  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_each_mode_of_reset_gives_the_same_episodes(mode: AutoresetMode) -> None:
    class Wrapped(SyncVectorEnv):
        """Not stepped lane by lane, since a subclass may do more."""

    lanes = Lanes(Wrapped([lambda n=n: Counting({"length": 3 + n}) for n in range(2)], autoreset_mode=mode))
    direct = Lanes(SyncVectorEnv([lambda n=n: Counting({"length": 3 + n}) for n in range(2)]))
    assert direct.is_direct and not lanes.is_direct
    expected, found = [], []
    for each, into in ((direct, expected), (lanes, found)):
        observations, infos = each.reset([1, 2])
        assert [info["episode"] for info in infos] == [1, 1]
        for _ in range(40):
            step = each.step(np.zeros(2, np.int64))
            for lane in range(2):
                if step.stepped is not None and not step.stepped[lane]:
                    observations[lane] = step.observations[lane]
                    continue
                final, info = step.finals.get(lane, (step.observations[lane], step.infos[lane]))
                into.append((
                    lane, observations[lane].tolist(), final.tolist(), step.rewards[lane], step.terminateds[lane],
                    step.truncateds[lane], info["at"],
                ))  # fmt: skip
            observations = step.observations
    for lane in range(2):
        ours = [row for row in found if row[0] == lane]
        assert len(ours) >= 29 and ours == [row for row in expected if row[0] == lane][: len(ours)]


def test_columns_hold_the_last_observation_where_an_episode_ended() -> None:
    runner = SingleAgentEnvRunner(
        config=config(Counting, num_envs_per_env_runner=2, env_config={"length": 3})
    )
    rollout = runner.sample_rollout(7)
    at, after = rollout.columns[Columns.OBS][:, 0, 1], rollout.next_obs[:, 0, 1]
    assert at.tolist() == [0, 1, 2, 0, 1, 2, 0] and after.tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert rollout.columns[Columns.TERMINATEDS][:, 0].tolist() == [
        False,
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    assert rollout.columns[Columns.TRUNCATEDS][:, 0].tolist() == [
        False,
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    assert rollout.columns[Columns.REWARDS][:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    results = MetricsLogger.peek_results(runner.get_metrics())
    assert (
        results["num_episodes"] == 4
        and results["episode_return_mean"] == 6
        and results["episode_len_mean"] == 3
    )


def test_episodes_carry_every_step_once() -> None:
    runner = SingleAgentEnvRunner(config=config(Counting, num_envs_per_env_runner=2))
    chunks: dict[str, list[Any]] = {}
    for _ in range(3):
        samples = runner.sample(num_timesteps=14)
        assert sum(len(episode) for episode in samples) == 14
        for episode in samples:
            assert episode.is_numpy
            chunks.setdefault(episode.id_, []).append(episode)
    for parts in chunks.values():
        rewards = np.concatenate([part.get_rewards() for part in parts]).tolist()
        assert rewards == list(range(1, len(rewards) + 1))
        assert (
            len(parts) == 1
            or parts[1].get_observations(-1, neg_index_as_lookback=True)[1] == parts[1].t_started - 1
        )
    whole = runner.sample(num_episodes=3)
    assert len(whole) == 3 and all(episode.is_done and len(episode) == 5 for episode in whole)


def test_equal_seeds_give_equal_bits_and_others_do_not() -> None:
    runs = [
        SingleAgentEnvRunner(config=config(seed=seed), worker_index=worker, num_workers=1)
        for seed, worker in ((3, 1), (3, 1), (4, 1), (3, 2))
    ]
    digests = [digest(run.sample_rollout(50)) for run in runs]
    assert digests[0] == digests[1] and len(set(digests)) == 3


def test_another_runner_goes_on_from_the_state_of_lanes() -> None:
    for callbacks in (None, Silent):
        first = SingleAgentEnvRunner(config=config(callbacks_class=callbacks))
        first.sample_rollout(30)
        state = first.get_lane_state()
        other = SingleAgentEnvRunner(config=config(seed=99, callbacks_class=callbacks))
        other.set_state(first.get_state())
        other.set_lane_state(pickle.loads(pickle.dumps(state)))
        assert digest(first.sample_rollout(30)) == digest(other.sample_rollout(30))


def test_the_exception_of_an_environment_comes_out_at_once() -> None:
    runner = SingleAgentEnvRunner(config=config(Counting, env_config={"fails_at": 8}))
    with pytest.raises(ZeroDivisionError, match="step 8"):
        runner.sample_rollout(20)


@pytest.mark.parametrize("callbacks", [None, Silent])
def test_a_failed_environment_is_made_anew_if_that_is_wanted(callbacks: Any) -> None:
    made = config(
        Counting, env_config={"fails_at": 8}, restart_failed_sub_environments=True, callbacks_class=callbacks,
        num_envs_per_env_runner=2,
    )  # fmt: skip
    rollout = SingleAgentEnvRunner(config=made).sample_rollout(10)
    assert rollout.num_lanes_restarted == 2
    assert (~rollout.valid).nonzero()[0].tolist() == [7, 7]
    assert rollout.columns[Columns.TRUNCATEDS][6].tolist() == [True, True]
    assert rollout.columns[Columns.OBS][:, 0, 1].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]
    assert rollout.next_obs[6, 0, 1] == 2


class Resigning(gym.Env[Any, Any]):
    """Asks to be made anew, or fails."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, settings: Any) -> None:
        self.error = settings["error"]

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(("error", "lines"), [(StepFailedRecreateEnvError(), 0), (ValueError("broken"), 2)])
def test_an_environment_that_asks_to_be_made_anew_is_no_error(
    error: Exception, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = config(Resigning, env_config={"error": error}, restart_failed_sub_environments=True)
    made.num_envs_per_env_runner = 1
    runner = SingleAgentEnvRunner(config=made)
    assert runner.sample_rollout(2, random_actions=True).num_lanes_restarted == 2
    assert len(caplog.records) == lines


def test_a_runner_outside_of_a_group_samples_whatever_the_size_of_groups() -> None:
    made = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=5, num_envs_per_env_runner=2)
    made.freeze()
    runner = SingleAgentEnvRunner(config=made)
    assert sum(map(len, runner.sample(num_timesteps=6, random_actions=True))) == 6
    assert runner.env.env.envs == runner.env.unwrapped.envs
    # A function that runs on a runner may change its settings; those of others stay.
    runner.config.env_runners(episode_lookback_horizon=7)
    assert made.episode_lookback_horizon == 1
    assert SingleAgentEnvRunner(config=made, worker_index=0, spaces=runner.get_spaces()).env is None
    runner.stop()


def test_callbacks_come_in_order_with_their_arguments() -> None:
    seen: list[tuple[str, int]] = []

    class Notes(RLlibCallback):
        def on_environment_created(
            self, *, env_runner: Any, env: Any, env_context: Any, **kwargs: Any
        ) -> None:
            assert env.envs[0].unwrapped.length == 2 and env_context.worker_index == 0
            seen.append(("environment", 0))

        def on_episode_created(self, *, episode: Any, env_index: int, **kwargs: Any) -> None:
            assert not episode.is_reset
            seen.append(("created", len(episode)))

        def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
            assert episode.get_observations(-1)[1] == 0
            seen.append(("start", len(episode)))

        def on_episode_step(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
            metrics_logger.log_value("own", episode.get_rewards(-1), reduce="max")
            seen.append(("step", len(episode)))

        def on_episode_end(self, *, episode: Any, prev_episode_chunks: Any, **kwargs: Any) -> None:
            seen.append(("end", len(episode) + sum(len(chunk) for chunk in prev_episode_chunks)))

        def on_sample_end(self, *, samples: Any, **kwargs: Any) -> None:
            seen.append(("sampled", len(samples)))

    ends: list[Any] = []
    made = config(
        Counting, env_config={"length": 2}, num_envs_per_env_runner=1, callbacks_class=[Notes, Silent],
        callbacks_on_episode_end=lambda episode, **kwargs: ends.append(episode.id_),
    )  # fmt: skip
    runner = SingleAgentEnvRunner(config=made)
    runner.sample(num_timesteps=3)
    runner.sample(num_timesteps=1)
    assert seen == [
        ("environment", 0), ("created", 0), ("start", 0), ("step", 1), ("step", 2), ("end", 2), ("created", 0), ("start", 0),
        ("step", 1), ("sampled", 2), ("step", 1), ("end", 2), ("created", 0), ("start", 0), ("sampled", 1),
    ]  # fmt: skip
    assert len(set(ends)) == 2 and MetricsLogger.peek_results(runner.get_metrics())["own"] == 2


def test_bounded_actions_are_scaled_and_random_ones_fit() -> None:
    runner = SingleAgentEnvRunner(config=config(Boxes, num_envs_per_env_runner=1))
    rollout = runner.sample_rollout(20)
    taken = np.stack(runner.env.envs[0].taken)
    chosen = rollout.columns[Columns.ACTIONS][:, 0]
    np.testing.assert_allclose(
        taken, np.clip((chosen + 1) / 2 * [10, 8] + [0, -4], [0, -4], [10, 4]), rtol=1e-5
    )
    assert rollout.columns[Columns.OBS].shape == (20, 1, 4 + 3 + 2 + 5)
    runner.sample_rollout(20, random_actions=True)
    assert len(runner.env.envs[0].taken) == 40


@pytest.mark.parametrize("callbacks", [None, Silent])
def test_complete_episodes_end_with_their_lanes(callbacks: Any) -> None:
    class Uneven(Counting):
        def __init__(self, context: Any) -> None:
            super().__init__({"length": 3 + 2 * context.vector_index})

    made = config(
        Uneven, num_envs_per_env_runner=2, batch_mode="complete_episodes", callbacks_class=callbacks
    )
    runner = SingleAgentEnvRunner(config=made)
    for _ in range(2):
        rollout = runner.sample_rollout(4)
        assert rollout.valid[:, 0].tolist() == [True] * 6 and rollout.valid[:, 1].tolist() == [True] * 5 + [
            False
        ]
        over = rollout.columns[Columns.TERMINATEDS] | rollout.columns[Columns.TRUNCATEDS]
        assert over[:, 0].tolist() == [False, False, True, False, False, True] and over[4, 1]
        assert rollout.columns[Columns.OBS][0, :, 1].tolist() == [0, 0]
    results = MetricsLogger.peek_results(runner.get_metrics())
    assert results["num_episodes"] == 6 and results["num_env_steps_sampled"] == 22


@pytest.mark.parametrize("name", ["Unknown-v1", "no-version", "gymnasium.envs.Unknown", "no_module.MyEnv"])
def test_an_unknown_environment_is_named_with_the_kinds_that_there_are(name: str) -> None:
    with pytest.raises(EnvError, match=rf"The env string you provided \('{name}'\) is .* path of a class"):
        SingleAgentEnvRunner(config=PPOConfig().environment(name))


def test_an_environment_may_be_named_by_the_path_of_its_class() -> None:
    runner = SingleAgentEnvRunner(
        config=config(f"{__name__}.Resigning", env_config={"error": ValueError("broken")})
    )
    assert isinstance(runner.env.unwrapped.envs[0], Resigning)
    runner.stop()
