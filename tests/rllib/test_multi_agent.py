"""Environments with several agents: every step of every agent is in exactly one batch, once."""

from __future__ import annotations

import pickle
import random
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")
from rllib.tiny_module import Choice, TinyModule, config

from skate.rllib.env.env_context import EnvContext
from skate.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from skate.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.env.vector.registration import make_vec
from skate.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger


class Schedule(MultiAgentEnv):
    """Agents come late, skip steps and leave early, by a random schedule; each reward is a number of its own."""

    ledger: list[tuple[str, float]] = []

    def __init__(self, settings: Any = None) -> None:
        self.possible_agents = ["a", "b", "c"]
        self.observation_spaces = dict.fromkeys(
            self.possible_agents, gym.spaces.Box(0, 1e6, (2,), np.float32)
        )
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(3))
        self.dice = random.Random((settings or {}).get("seed", 0))
        self.count = 0
        super().__init__()

    def observe(self, agents: list[str]) -> dict[str, Any]:
        return {agent: np.array([self.at, ord(agent)], np.float32) for agent in agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at = 0
        self.present = {agent for agent in self.possible_agents if self.dice.random() < 0.7} or {"a"}
        self.gone: set[str] = set()
        self.asked = set(self.present)
        return self.observe(sorted(self.present)), {}

    def step(self, action_dict: dict[str, Any]) -> Any:
        assert set(action_dict) == self.asked, f"acted: {set(action_dict)}, asked: {self.asked}"
        self.at += 1
        late = (
            {agent for agent in self.possible_agents if self.dice.random() < 0.2} - self.gone - self.present
        )
        rewards = {}
        for agent in sorted(self.present):
            self.count += 1
            rewards[agent] = float(self.count)
            Schedule.ledger.append((agent, float(self.count)))
        over = self.at == 9
        leaving = set() if over else {agent for agent in sorted(self.present) if self.dice.random() < 0.1}
        seen = {agent for agent in sorted(self.present) if self.dice.random() < 0.7} | leaving | late
        if over:
            seen = set(self.present)
        self.present = (self.present | late) - leaving
        self.gone |= leaving
        if not self.present:
            over = True
        self.asked = seen & self.present
        if not self.asked and not over:
            self.asked = {sorted(self.present)[0]}
            seen |= self.asked
        terminateds = dict.fromkeys(leaving, True) | {"__all__": over}
        return self.observe(sorted(seen)), rewards, terminateds, {"__all__": False}, {}


class Modules(dict[str, TinyModule]):
    """Several tiny modules."""

    def is_stateful(self) -> bool:
        return False

    def forward_exploration(self, batch: dict[str, Any], t: int = 0) -> dict[str, Any]:
        return {
            module_id: self[module_id].forward_exploration(columns, t) for module_id, columns in batch.items()
        }

    forward_inference = forward_exploration

    def get_state(self, **kwargs: Any) -> dict[str, Any]:
        return {module_id: module.get_state() for module_id, module in self.items()}

    def set_state(self, state: dict[str, Any]) -> None:
        for module_id, each in state.items():
            self[module_id].set_state(each)


def many(env: Any = Schedule, **settings: Any) -> SimpleNamespace:
    made = config(env, num_envs_per_env_runner=2, **settings)
    made.is_multi_agent, made.policies = True, {"p": None, "q": None}
    made.policy_mapping_fn = lambda agent_id, episode, **kwargs: "p" if agent_id in ("a", 0) else "q"

    def spec(spaces: Any, inference_only: bool) -> Any:
        sizes = {key: (space[0].shape[0], int(space[1].n)) for key, space in spaces.items() if key in "pq"}
        return SimpleNamespace(
            build=lambda: Modules({key: TinyModule(*size, Choice) for key, size in sizes.items()})
        )

    made.get_multi_rl_module_spec = spec
    return made


@pytest.mark.parametrize("seed", range(12))
def test_every_reward_is_in_exactly_one_batch(seed: int) -> None:
    Schedule.ledger.clear()
    runner = MultiAgentEnvRunner(config=many(env_config={"seed": seed}))
    found: dict[str, list[float]] = {"p": [], "q": []}
    for _ in range(6):
        for module_id, rollouts in runner.sample_rollout(7).items():
            for rollout in rollouts:
                rollout.check()
                found[module_id] += rollout.columns["rewards"].reshape(-1).tolist()
                agents = np.unique(rollout.columns["obs"][..., 1])
                assert all((chr(int(agent)) == "a") == (module_id == "p") for agent in agents)
                # Each step begins with the observation that the one before ended with.
                np.testing.assert_array_equal(rollout.next_obs[:-1], rollout.columns["obs"][1:])
                assert {"action_logp", "action_dist_inputs"} <= rollout.columns.keys()
    assert runner.samples_columns and runner._agents is not None
    pending = sum(track.pending for lane in runner._agents.lanes for track in lane.live.values())
    # Rewards before an agent's first observation, and after its last action, belong to no action of its.
    assert sum(map(sum, found.values())) + pending == pytest.approx(
        sum(reward for _, reward in Schedule.ledger)
    )
    results = MetricsLogger.peek_results(runner.get_metrics())
    assert results["num_env_steps_sampled"] == 84 and results["num_module_steps_sampled"]["q"] == len(
        found["q"]
    )


def test_agents_in_turns_get_the_sum_of_rewards_between_their_turns() -> None:
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent_id, episode: f"for {agent_id}")
    episode.add_env_reset(observations={"x": 0}, infos={"x": {"i": 0}})
    assert episode.get_agents_to_act() == {"x"}
    episode.add_env_step({"y": 1}, {"x": 10}, {"x": 1.0, "y": 0.0})
    assert episode.get_agents_to_act() == {"y"} and len(episode.agent_episodes["x"]) == 0
    episode.add_env_step({"x": 2}, {"y": 20}, {"x": 2.0, "y": 5.0})
    assert episode.agent_episodes["x"].get_rewards() == [3.0] and episode.module_for("y") == "for y"
    following = episode.cut(len_lookback_buffer=1)
    following.add_env_step(
        {"y": 3},
        {"x": 11},
        {"x": 4.0, "y": 6.0},
        terminateds={"__all__": True},
        truncateds={"__all__": False},
    )
    assert following.agent_episodes["y"].get_rewards() == [11.0] and following.agent_episodes[
        "y"
    ].get_actions() == [20]
    assert following.agent_episodes["x"].get_observations() == [2, 2] and following.is_done
    assert following.get_return() == 15.0 and len(following) == 1 and following.env_t == 3
    # The last observation of an agent that ends without one is that before.
    assert following.get_observations(-1) == {"x": 2, "y": 3} and following.get_actions(-1) == {"x": 11}
    # The whole reward belongs to the step at which the agent acted, and that of y is in the lookback.
    assert following.get_rewards(slice(None)) == {"x": [4.0]}
    assert following.get_rewards(-1, neg_index_as_lookback=True) == {"y": 11.0}
    assert following.get_observations(-1, neg_index_as_lookback=True) == {"y": 1}


def test_independent_games_give_whole_episodes() -> None:
    env = make_multi_agent("CartPole-v1")
    runner = MultiAgentEnvRunner(config=many(env, env_config={"num_agents": 3}))
    episodes = runner.sample(num_episodes=3)
    assert len(episodes) == 3 and all(episode.is_done and episode.is_numpy for episode in episodes)
    for episode in episodes:
        assert {0, 1, 2} == episode.agent_ids and episode.agent_steps() == episode.get_return()
        assert len(episode) == max(len(one) for one in episode.agent_episodes.values())
    results = MetricsLogger.peek_results(runner.get_metrics())
    assert set(results["agent_episode_returns_mean"]) == {"0", "1", "2"}
    assert set(results["module_episode_returns_mean"]) == {"p", "q"}
    steps = runner.sample(num_timesteps=20, random_actions=True)
    assert sum(len(episode) for episode in steps) == 20


def test_equal_seeds_give_equal_bits_from_any_state_of_lanes() -> None:
    def bits(runner: MultiAgentEnvRunner) -> bytes:
        sampled = runner.sample_rollout(15)
        return b"".join(
            rollout.columns[key].tobytes()
            for key in ("obs", "actions", "rewards")
            for each in sampled.values()
            for rollout in each
        )

    one, other = (MultiAgentEnvRunner(config=many(env_config={"seed": 1})) for _ in range(2))
    assert bits(one) == bits(other)
    third = MultiAgentEnvRunner(config=many(env_config={"seed": 5}))
    third.set_lane_state(pickle.loads(pickle.dumps(one.get_lane_state())))
    assert bits(third) == bits(other)


class Turns:
    """A game of PettingZoo's kind in turns: each of two players acts three times, then both are out."""

    possible_agents = ["first", "second"]

    def __init__(self) -> None:
        self.infos: dict[str, Any] = {}

    def observation_space(self, agent: str) -> Any:
        return gym.spaces.Box(0, 10, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return gym.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.moves, self.agent_selection = list(self.possible_agents), 0, "first"

    def observe(self, agent: str) -> Any:
        return np.array([self.moves], np.float32)

    def last(self) -> Any:
        return self.observe(self.agent_selection), 1.0, self.moves == 6, False, {}

    def step(self, action: Any) -> None:
        if self.moves == 6:
            assert action is None
            self.agents.remove(self.agent_selection)
            self.agent_selection = self.agents[0] if self.agents else ""
            return
        self.moves += 1
        self.agent_selection = self.possible_agents[self.moves % 2]

    def close(self) -> None:
        pass


def test_games_in_turns_end_for_all() -> None:
    runner = MultiAgentEnvRunner(config=many(lambda settings: PettingZooEnv(Turns())))
    episodes = runner.sample(num_episodes=2)
    for episode in episodes:
        assert {agent: len(one) for agent, one in episode.agent_episodes.items()} == {"first": 3, "second": 3}
        assert episode.is_done and all(one.is_terminated for one in episode.agent_episodes.values())


def test_parallel_games_of_pettingzoo() -> None:
    pytest.importorskip("pettingzoo")
    from pettingzoo.utils.env import ParallelEnv

    class Both(ParallelEnv):  # type: ignore[type-arg, misc]
        """Two players for four rounds."""

        possible_agents = ["first", "second"]
        metadata: dict[str, Any] = {"name": "both"}

        def observation_space(self, agent: str) -> Any:
            return gym.spaces.Box(0, 10, (1,), np.float32)

        def action_space(self, agent: str) -> Any:
            return gym.spaces.Discrete(2)

        def both(self, value: Any) -> dict[str, Any]:
            return dict.fromkeys(self.possible_agents, value)

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents, self.rounds = list(self.possible_agents), 0
            return self.both(np.zeros(1, np.float32)), self.both({})

        def step(self, actions: Any) -> Any:
            self.rounds += 1
            over = self.rounds == 4
            self.agents = [] if over else self.agents
            seen = self.both(np.array([self.rounds], np.float32))
            return seen, self.both(1.0), self.both(False), self.both(over), self.both({})

    runner = MultiAgentEnvRunner(config=many(lambda settings: ParallelPettingZooEnv(Both())))
    episode = runner.sample(num_episodes=1)[0]
    assert episode.is_truncated and not episode.is_terminated and episode.get_return() == 8.0
    # Programs ask these wrappers for the space of an agent as they ask PettingZoo.
    for game in (ParallelPettingZooEnv(Both()), PettingZooEnv(Turns())):
        assert game.observation_space["first"] == game.get_observation_space("first")
        assert game.action_space == gym.spaces.Dict(game.action_spaces)


def turns(lookback: int | str = 0) -> MultiAgentEpisode:
    """Agent a0 acts on observations 0 and 3, a1 on 0, 1 and 2."""
    seen: list[dict[str, Any]] = [{"a0": 0, "a1": 0}, {"a1": 1}, {"a1": 2}, {"a0": 3, "a1": 3}, {"a0": 4}]
    rewards = [{agent: value / 10 + 0.1 for agent, value in each.items()} for each in seen[:-1]]
    return MultiAgentEpisode(
        "e", observations=seen, actions=seen[:-1], rewards=rewards, len_lookback_buffer=lookback,
        extra_model_outputs=[{agent: {"logp": float(value)} for agent, value in each.items()} for each in seen[:-1]],
    )  # fmt: skip


def test_parts_of_an_episode_have_the_agents_steps_within() -> None:
    middle = turns()[1:3]
    a0, a1 = middle.agent_episodes["a0"], middle.agent_episodes["a1"]
    assert (list(a0.get_observations()), list(a1.get_observations())) == ([3], [1, 2, 3])
    assert (len(a0), list(a1.get_actions()), len(middle), middle.env_t_started) == (0, [1, 2], 2, 1)
    assert list(a1.get_rewards()) == pytest.approx([0.2, 0.3])
    start = turns()[:2]
    assert list(start.agent_episodes["a0"].get_observations()) == [0] and not len(start.agent_episodes["a0"])
    assert start.get_return() == pytest.approx(0.1 + 0.2)
    assert start.get_return(include_hanging_rewards=True) == pytest.approx(0.1 + 0.2 + 0.1)
    back = turns()[2:].slice(slice(0, 1))
    assert list(back.agent_episodes["a1"].get_observations()) == [2, 3]
    remembered = turns().slice(slice(2, 4), len_lookback_buffer=1)
    assert remembered.get_observations([-1, 0], neg_index_as_lookback=True, return_list=True) == [
        {"a1": 1}, {"a1": 2},
    ]  # fmt: skip
    assert remembered.agent_episodes["a1"].get_actions(-1, neg_index_as_lookback=True) == 1
    with pytest.raises(NotImplementedError, match="stride 2"):
        turns()[::2]


def test_an_episode_from_lists_may_be_lookback_alone() -> None:
    whole = turns("auto")
    assert (len(whole), whole.env_t, whole.env_t_started) == (0, 0, 0)
    assert whole.get_actions(-1) == {"a0": 3, "a1": 3}
    assert whole.get_extra_model_outputs("logp", [-2, -1], return_list=True) == [
        {"a1": 2.0},
        {"a0": 3.0, "a1": 3.0},
    ]
    with pytest.raises(ValueError, match="5 observations go with 4"):
        MultiAgentEpisode(observations=[{"a": 0}] * 5, actions=[{}], rewards=[{}])


def test_chunks_make_the_whole_again() -> None:
    for seed in range(25):
        env = Schedule({"seed": seed})
        Schedule.ledger.clear()
        whole, cut = MultiAgentEpisode("e"), MultiAgentEpisode("e")
        observations, _ = env.reset()
        for each in (whole, cut):
            each.add_env_reset(observations=observations)
        chunks = [cut]
        while not whole.is_done:
            actions = dict.fromkeys(whole.get_agents_to_act(), env.at)
            found = env.step(actions)
            for each in (whole, chunks[-1]):
                each.add_env_step(found[0], actions, found[1], terminateds=found[2], truncateds=found[3])
            if not whole.is_done and env.dice.random() < 0.4:
                chunks.append(chunks[-1].cut(env.dice.randrange(3)))
        joined = MultiAgentEpisode.from_state(pickle.loads(pickle.dumps(chunks[0].get_state())))
        for chunk in chunks[1:]:
            joined.concat_episode(chunk)
        half = len(whole) // 2
        halves = whole[:half], whole[half:]
        for made in (joined, MultiAgentEpisode.from_state(whole.get_state()), whole[:]):
            assert made.agent_ids == whole.agent_ids and len(made) == len(whole) and made.is_done
            for agent, one in whole.agent_episodes.items():
                other = made.agent_episodes[agent]
                assert [x.tolist() for x in one.get_observations()] == [
                    x.tolist() for x in other.get_observations()
                ]
                assert list(one.get_rewards()) == list(other.get_rewards()), f"seed {seed}, agent {agent}"
                assert list(one.get_actions()) == list(other.get_actions()) and one.is_done == other.is_done
            assert made.get_rewards(return_list=True) == whole.get_rewards(return_list=True)
        assert sum(len(half) for half in halves) == len(whole) and not halves[0].is_done and halves[1].is_done


class Team(MultiAgentEnv):
    """Two agents that act together, and one alone."""

    def __init__(self) -> None:
        self.possible_agents = ["left", "right", "alone"]
        self.observation_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Box(0, 9, (1,), np.float32))
        self.action_spaces = dict.fromkeys(self.possible_agents, gym.spaces.Discrete(3))
        super().__init__()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return dict.fromkeys(self.possible_agents, np.zeros(1, np.float32)), {"left": {"x": 1}, "right": {}}

    def step(self, action_dict: dict[str, Any]) -> Any:
        seen = {agent: np.array([action], np.float32) for agent, action in action_dict.items()}
        rewards = {agent: float(action) for agent, action in action_dict.items()}
        return seen, rewards, {"left": True, "right": False, "__all__": False}, {"__all__": False}, {}


def test_a_group_of_agents_acts_as_one() -> None:
    env = Team().with_agent_groups({"team": ["left", "right"]})
    assert env.possible_agents == ["team", "alone"]
    space = env.get_action_space("team")
    assert space == gym.spaces.Tuple([gym.spaces.Discrete(3)] * 2)
    assert env.get_observation_space("alone") == Team().get_observation_space("alone")
    observations, infos = env.reset()
    assert set(observations) == {"team", "alone"} and env.get_observation_space("team").contains(
        observations["team"]
    )
    assert infos == {"team": {"_group_info": [{"x": 1}, {}]}}
    observations, rewards, terminateds, truncateds, infos = env.step({"team": (1, 2), "alone": 2})
    assert [float(each[0]) for each in observations["team"]] == [1.0, 2.0]
    assert rewards == {"team": 3.0, "alone": 2.0} and infos["team"]["_group_rewards"] == [1.0, 2.0]
    assert terminateds == {"team": False, "__all__": False} and truncateds == {"__all__": False}
    with pytest.raises(ValueError, match="in several groups"):
        Team().with_agent_groups({"one": ["left"], "two": ["left", "right"]})


@pytest.mark.parametrize("count", [3, 6])
def test_exactly_so_many_episodes_are_sampled(count: int) -> None:
    ended: list[Any] = []
    settings = many()
    settings.num_envs_per_env_runner = 4
    settings.callbacks_on_episode_end = lambda *, episode, **kwargs: ended.append(episode.id_)
    runner = MultiAgentEnvRunner(config=settings)
    episodes = runner.sample(num_episodes=count)
    assert [episode.id_ for episode in episodes] == ended and len(ended) == count
    assert all(episode.is_done for episode in episodes)
    assert MetricsLogger.peek_results(runner.get_metrics())["num_episodes"] == count


def test_no_episode_begins_after_the_last_of_a_call() -> None:
    begun: list[str] = []
    settings = many()
    settings.num_envs_per_env_runner = 1
    settings.callbacks_on_episode_start = lambda *, episode, **kwargs: begun.append(episode.id_)
    runner = MultiAgentEnvRunner(config=settings)
    sampled = [episode.id_ for _ in range(2) for episode in runner.sample(num_episodes=2)]
    assert begun == sampled


def test_complete_episodes_of_several_agents_are_whole() -> None:
    settings = many(batch_mode="complete_episodes")
    runner = MultiAgentEnvRunner(config=settings)
    Schedule.ledger.clear()
    for _ in range(2):
        found = runner.sample_rollout(12)
        ends = sum(
            int((each.columns["terminateds"] | each.columns["truncateds"])[-1].sum())
            for rollouts in found.values()
            for each in rollouts
        )
        lanes = sum(each.num_lanes for rollouts in found.values() for each in rollouts)
        assert ends == lanes and all(each.valid.all() for rollouts in found.values() for each in rollouts)
    steps = MetricsLogger.peek_results(runner.get_metrics())["num_env_steps_sampled"]
    assert steps >= 2 * 2 * 12


def test_a_vector_is_stepped_by_hand() -> None:
    gym.register(
        "TwoPoles-v0",
        entry_point=lambda num_agents: make_multi_agent("CartPole-v1")({"num_agents": num_agents}),
        disable_env_checker=True,
    )
    env = make_vec("TwoPoles-v0", num_envs=2, vectorization_mode="sync", num_agents=2)
    first, infos = env.reset(seed=3)
    again, _ = env.reset(seed=[3, 4])
    assert [list(each) for each in first] == [[0, 1], [0, 1]] and infos == [{0: {}, 1: {}}] * 2
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, again, strict=True))
    with pytest.raises(ValueError, match="1 seeds were given for 2 environments"):
        env.reset(seed=[3])
    ended, alive = [False, False], [{0, 1}, {0, 1}]
    for _ in range(60):
        observations, rewards, terminateds, truncateds, _ = env.step(
            [dict.fromkeys(each, 1) for each in alive]
        )
        for at in range(2):
            assert (rewards[at] == {0: 0.0, 1: 0.0} and not terminateds[at]["__all__"]) is ended[at]
            assert set(observations[at]) <= {0, 1} and not truncateds[at]["__all__"]
            dead = {agent for agent in (0, 1) if terminateds[at].get(agent)}
            alive[at] = {0, 1} if ended[at] or terminateds[at]["__all__"] else alive[at] - dead
        ended = [each["__all__"] for each in terminateds]
    assert env.get_attr("num_agents") == (2, 2) and env.spec.id == "TwoPoles-v0"
    env.close()
    with pytest.raises(ValueError, match="'async' was asked for"):
        make_vec("TwoPoles-v0", vectorization_mode="async")
    with pytest.raises(ValueError, match="'same_step' was asked for"):
        make_vec("TwoPoles-v0", vector_kwargs={"autoreset_mode": "same_step"}, num_agents=1)
    gym.registry.pop("TwoPoles-v0")


def test_copies_of_an_environment_know_their_place() -> None:
    made: list[Any] = []
    settings = EnvContext({"num_agents": 2, "rate": 3}, worker_index=4, vector_index=1)

    def create(given: Any) -> Any:
        made.append((dict(given), given.worker_index, given.vector_index))
        return gym.make("CartPole-v1")

    make_multi_agent(create)(settings)
    assert made == [({"rate": 3}, 4, 1)] * 2 and settings["num_agents"] == 2
