"""Generated calls of episodes of several agents, which act in turns, skip steps and leave, answer as Ray's do."""

from __future__ import annotations

import random
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.error import MultiAgentEnvError
from recorded_answers import Answers, answer

ANSWERS = Answers("multi_agent_calls")
AGENTS = ("a", "b", "c")
COLUMNS = ("observations", "actions", "rewards", "infos", "extra_model_outputs")
SEEN = gym.spaces.Dict(dict.fromkeys(AGENTS, gym.spaces.Box(-100, 100, (2,), np.float32)))
ACTED = gym.spaces.Dict(dict.fromkeys(AGENTS, gym.spaces.Discrete(60)))


class Scene:
    """An episode, with the agents' observations as numbers of steps and actions as ten times these.

    Args:
        seed: Of everything.
        leaves: True if agents may end before the others do.
    """

    def __init__(self, seed: int, leaves: bool = False) -> None:
        self.dice = random.Random(seed)
        self.leaves = leaves
        self.episode = MultiAgentEpisode(
            "e", observation_space=SEEN, action_space=ACTED,
            agent_to_module_mapping_fn=lambda agent_id, episode, **kwargs: f"for {agent_id}",
        )  # fmt: skip
        self.at, self.gone, self.present = (
            0,
            set(),
            {"a", *(each for each in "bc" if self.dice.random() < 0.5)},
        )
        self.acting = set(self.present)
        self.episode.add_env_reset(observations=self.seen(self.acting), infos={"a": {"i": 0}})

    def seen(self, agents: set[str]) -> dict[str, Any]:
        return {each: np.array([self.at, ord(each)], np.float32) for each in sorted(agents)}

    def steps(self, count: int, end: bool = False) -> None:
        for step in range(count):
            self.step(end and step == count - 1)

    def step(self, last: bool) -> None:
        dice, acted = self.dice, sorted(self.acting)
        self.at += 1
        late = {each for each in AGENTS if dice.random() < 0.3} - self.present - self.gone
        leaving = {each for each in acted if self.leaves and each != "a" and dice.random() < 0.2}
        again = {each for each in sorted(self.present) if dice.random() < 0.6} | leaving
        newly = set(self.present) if last else again | late
        rewards = {each: self.at / 2 for each in sorted(self.present) if each in acted or dice.random() < 0.5}
        self.episode.add_env_step(
            self.seen(newly),
            dict.fromkeys(acted, self.at % 6 * 10),
            rewards,
            {each: {"i": self.at} for each in newly},
            terminateds={**dict.fromkeys(sorted(leaving), True), "__all__": last},
            truncateds={"__all__": False},
            extra_model_outputs={each: {"logp": -self.at / 4} for each in acted},
        )
        self.present = (self.present | late) - leaving
        self.gone |= leaving
        self.acting = newly - leaving

    def indices(self) -> Any:
        dice = self.dice
        kind = dice.choice(["int", "int", "list", "slice", "all"])
        if kind == "int":
            return dice.randint(-5, 5)
        if kind == "list":
            return [dice.randint(-2, 2) for _ in range(dice.randint(1, 3))]
        # Beyond both ends at once, Ray's answers are not of one piece.
        low, high = sorted((dice.randint(-6, len(self.episode)), dice.randint(-6, len(self.episode))))
        return slice(dice.choice([None, low]), dice.choice([None, high])) if kind == "slice" else None

    def read(self, names: tuple[str, ...] = COLUMNS) -> tuple[str, Any]:
        dice = self.dice
        # Ray has no answer about outputs while an agent has none.
        silent = any(not len(one) for one in self.episode.agent_episodes.values())
        name = dice.choice([each for each in names if each != "extra_model_outputs" or not silent])
        indices, options = self.indices(), {}
        if dice.random() < 0.4:
            options["neg_index_as_lookback"] = True
        if dice.random() < 0.3:
            options["agent_ids"] = dice.choice(["a", ["b"], ["a", "c"], {"b", "c"}])
        if dice.random() < 0.3 and not isinstance(indices, int):
            options["return_list"] = True
        if dice.random() < 0.3 and name not in ("infos", "extra_model_outputs"):
            options["fill"] = 0
        if dice.random() < 0.3 and name == "actions":
            options["one_hot_discrete"] = True
        first = ("logp",) if name == "extra_model_outputs" else ()
        shown = {key: sorted(value) if isinstance(value, set) else value for key, value in options.items()}
        question = f"get_{name}({first}, {indices}, {shown})"
        return question, answer(lambda: getattr(self.episode, f"get_{name}")(*first, indices, **options))


def facts(episode: Any, infos: bool = True) -> dict[str, Any]:
    return {
        "len": len(episode), "t": (episode.env_t_started, episode.env_t), "reset": episode.is_reset,
        "done": (episode.is_done, episode.is_terminated, episode.is_truncated),
        "agents": episode.agent_ids, "acting": episode.get_agents_to_act(),
        "steps": (episode.env_steps(), episode.agent_steps()), "return": float(episode.get_return()),
        "modules": {each: episode.module_for(each) for each in sorted(episode.agent_ids)},
        "ends": episode.get_terminateds(),
        **{each: facts_of_agent(episode.agent_episodes[each], infos) for each in sorted(episode.agent_ids)},
    }  # fmt: skip


def facts_of_agent(one: Any, infos: bool) -> dict[str, Any]:
    return {
        "len": len(one), "t": (one.t_started, one.t), "done": (one.is_terminated, one.is_truncated),
        "of": (one.agent_id, one.module_id, one.multi_agent_episode_id),
        "seen": one.get_observations(), "acted": one.get_actions(), "got": one.get_rewards(),
        "infos": one.get_infos() if infos else None,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_reads(seed: int) -> None:
    scene = Scene(seed, leaves=seed % 2 == 1)
    scene.steps(scene.dice.randint(1, 6), end=seed % 5 == 4)
    found = [("facts", facts(scene.episode) and answer(lambda: facts(scene.episode)))]
    found.append(("stepped", answer(lambda: scene.episode.get_agents_that_stepped())))
    hanging = answer(lambda: scene.episode.get_return(include_hanging_rewards=True))
    ANSWERS.check(f"reads-{seed}", [*found, ("hanging", hanging), *(scene.read() for _ in range(25))])


@pytest.mark.parametrize("seed", range(20, 28))
def test_reads_by_steps_of_agents(seed: int) -> None:
    scene = Scene(seed)
    scene.steps(scene.dice.randint(2, 6), end=seed % 4 == 3)
    found = []
    for _ in range(20):
        name = scene.dice.choice(["observations", "actions", "rewards", "infos"])
        indices = scene.dice.choice([None, -1, 0, slice(0, 2), slice(-1, None), [0], [-1]])
        call = f"get_{name}({indices})"
        got = answer(lambda: getattr(scene.episode, f"get_{name}")(indices, env_steps=False, fill=None))  # noqa: B023
        found.append((call, got))
    both = answer(lambda: scene.episode.get_actions(env_steps=False, return_list=True))
    ANSWERS.check(f"own-{seed}", [*found, ("both", both)])


#: With others of these seeds, Ray's cut fails with an assertion.
CHUNKS = (60, 61, 63, 64, 65, 66, 68, 69, 72, 73)


@pytest.mark.parametrize("seed", CHUNKS)
def test_chunks(seed: int) -> None:
    scene = Scene(seed)
    # Ray's chunks go together if each agent has made a step, and if some steps are remembered.
    while len(scene.episode.agent_episodes) < 3 or not all(map(len, scene.episode.agent_episodes.values())):
        scene.step(last=False)
    first, back = scene.episode, scene.dice.randint(1, 3)
    names = ("observations", "infos")
    first.custom_data["mine"] = [seed]
    scene.episode = first.cut(len_lookback_buffer=back)
    found = [(f"cut({back})", answer(lambda: facts(scene.episode)))]
    found.extend(scene.read(names) for _ in range(5))
    scene.steps(scene.dice.randint(1, 3), end=seed % 3 == 0)
    found.append(("after steps", answer(lambda: facts(scene.episode))))
    found.extend(scene.read(names) for _ in range(10))
    again = MultiAgentEpisode.from_state(scene.episode.get_state())
    found.append(("state", answer(lambda: facts(again))))
    first.concat_episode(scene.episode)
    found.append(("concat", answer(lambda: facts(first))))
    scene.episode = first
    found.extend(scene.read(names) for _ in range(10))
    ANSWERS.check(f"chunks-{seed}", found)


@pytest.mark.parametrize("seed", range(40, 48))
def test_parts(seed: int) -> None:
    scene = Scene(seed)
    scene.steps(6, end=seed % 2 == 0)
    found = []
    for start, stop in ((None, None), (0, 2), (1, 4), (-2, None), (3, 3), (None, -1), (2, 40)):
        part = scene.episode[slice(start, stop)]
        found.append((f"[{start}:{stop}]", answer(lambda: facts(part, infos=False))))  # noqa: B023
        hanging = answer(lambda: part.get_return(include_hanging_rewards=True))  # noqa: B023
        found.append((f"[{start}:{stop}] hanging", hanging))
    ANSWERS.check(f"parts-{seed}", found)


@pytest.mark.parametrize("seed", range(50, 56))
def test_arrays(seed: int) -> None:
    scene = Scene(seed)
    scene.steps(scene.dice.randint(3, 6), end=True)
    assert scene.episode.to_numpy() is scene.episode and scene.episode.is_numpy
    found = [("facts", answer(lambda: facts(scene.episode)))]
    for _ in range(20):
        question, value = scene.read()
        found.append((question, value))
    ANSWERS.check(f"arrays-{seed}", found)
    columns = scene.episode.get_rewards(slice(0, 2))
    assert all(isinstance(column, np.ndarray) for column in columns.values())


def turns(arrays: bool = False) -> Any:
    """Two agents, one of which skips two steps; the last action of each hangs."""
    seen: list[dict[str, Any]] = [
        {"a": 0.0, "b": 0.0},
        {"b": 1.0},
        {"b": 2.0},
        {"a": 3.0, "b": 3.0},
        {"a": 4.0},
    ]
    rewards = [{agent: value / 10 + 0.1 for agent, value in each.items()} for each in seen[:-1]]
    made = MultiAgentEpisode(
        observations=seen, actions=[{agent: int(value) for agent, value in each.items()} for each in seen[:-1]],
        rewards=rewards, len_lookback_buffer=0,
        extra_model_outputs=[{agent: {"logp": -value} for agent, value in each.items()} for each in seen[:-1]],
    )  # fmt: skip
    return made.to_numpy() if arrays else made


@pytest.mark.parametrize("arrays", [False, True], ids=["lists", "arrays"])
@pytest.mark.parametrize(
    ("new", "indices", "back"),
    [
        ({"a": 9.0}, 0, False), ({"a": 9.0, "b": 8.0}, -1, False), ({"b": [8.0, 9.0]}, slice(0, 2), False),
        ({"b": [8.0, 9.0]}, [0, 1], False), ({"a": [8.0, 9.0]}, None, False), ({"b": 9.0}, 7, False),
        ({"nobody": 9.0}, 0, False), ({"b": [9.0]}, slice(0, 2), False),
    ],
)  # fmt: skip
def test_overwrites(new: dict[str, Any], indices: Any, back: bool, arrays: bool) -> None:
    episode, found = turns(arrays), []
    given = {agent: np.array(value, np.float32) if arrays else value for agent, value in new.items()}
    for name, key in (
        ("observations", {}),
        ("actions", {}),
        ("rewards", {}),
        ("extra_model_outputs", {"key": "logp"}),
    ):
        options = {"new_data": given, "at_indices": indices, "neg_index_as_lookback": back, **key}
        found.append((name, answer(lambda: getattr(episode, f"set_{name}")(**options))))  # noqa: B023
        first = tuple(key.values())
        read = answer(lambda: getattr(episode, f"get_{name}")(*first, slice(None), return_list=True))  # noqa: B023
        found.append((f"{name} after it", read))
    ANSWERS.check(f"set-{new}-{indices}-{arrays}", found)


def test_outputs_of_all_names() -> None:
    episode = turns()
    assert episode.get_extra_model_outputs(indices=-1) == {"a": {"logp": -3.0}, "b": {"logp": -3.0}}
    assert episode.get_extra_model_outputs(indices=[0, 1], return_list=True) == [
        {"a": {"logp": 0.0}, "b": {"logp": 0.0}}, {"b": {"logp": -1.0}},
    ]  # fmt: skip


def test_an_episode_takes_ids_and_modules_of_its_agents() -> None:
    made = MultiAgentEpisode(
        "whole", observations=[{"a": 0}, {"a": 1}], actions=[{"a": 0}], rewards=[{"a": 1.0}], len_lookback_buffer=0,
        agent_episode_ids={"a": "part"}, agent_module_ids={"a": "mine"}, agent_t_started={"a": 5}, env_t_started=7,
    )  # fmt: skip
    one = made.agent_episodes["a"]
    assert (made.agent_episode_ids, made.module_for("a")) == ({"a": "part"}, "mine")
    assert (one.id_, one.module_id, one.t_started, one.t) == ("part", "mine", 5, 6)
    assert (made.env_t_started, made.env_t) == (7, 8)


def test_agents_that_ended_take_part_no_more() -> None:
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0, "b": 0})
    episode.add_env_step({"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0}, terminateds={"b": True})
    assert episode.get_agents_to_act() == {"a"} and episode.get_agents_that_stepped() >= {"a", "b"}
    with pytest.raises(MultiAgentEnvError):
        episode.add_env_step({"b": 2}, {}, {})


def test_an_episode_ends_with_its_last_agent() -> None:
    episode = MultiAgentEpisode()
    episode.add_env_reset(observations={"a": 0, "b": 0})
    both = {"a": 1, "b": 1}
    ends = {"a": True, "__all__": False}
    episode.add_env_step(both, both, both, terminateds=ends, truncateds={"b": True, "__all__": False})
    assert (episode.is_done, episode.is_terminated, episode.get_agents_to_act()) == (True, True, set())
    with pytest.raises(MultiAgentEnvError):
        episode.add_env_step({}, {}, {})
    with pytest.raises(RuntimeError):
        episode.cut()
