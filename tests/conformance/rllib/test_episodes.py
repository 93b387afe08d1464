"""Episodes of one agent: generated reads, writes, cuts and slices against a list of steps."""

from __future__ import annotations

import random
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

SPACES = {
    "box": gym.spaces.Box(-100, 100, (2,), np.float32),
    "choice": gym.spaces.Discrete(50),
    "nested": gym.spaces.Dict(
        {"a": gym.spaces.Discrete(50), "b": gym.spaces.Box(-100, 100, (1,), np.float32)}
    ),
}


def observation(kind: str, step: int) -> Any:
    if kind == "box":
        return np.array([step, -step], np.float32)
    return step if kind == "choice" else {"a": step, "b": np.array([step], np.float32)}


def number(value: Any) -> float:
    """The step that an observation, action, reward, info or output was made of."""
    while isinstance(value, dict):
        value = next(iter(value.values()))
    return float(np.asarray(value).reshape(-1)[0])


def numbers(values: Any) -> list[float]:
    if isinstance(values, dict):
        values = values["a"]
    return [number(value) for value in values]


class Scene:
    """An episode and the list of steps that it has to agree with."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.kind = self.dice.choice(sorted(SPACES))
        self.episode = SingleAgentEpisode(
            observation_space=SPACES[self.kind], action_space=gym.spaces.Discrete(50), id_="x"
        )
        self.episode.add_env_reset(observation(self.kind, 0), {"i": 0})
        self.seen, self.steps, self.lookback = [0], [], 0
        self.step(self.dice.randint(1, 7))
        if self.dice.random() < 0.6:
            self.cut(self.dice.randint(0, 4))
        if self.dice.random() < 0.5 and len(self.episode):
            self.episode.to_numpy()

    def step(self, count: int) -> None:
        for _ in range(count):
            at = self.seen[-1] + 1
            self.episode.add_env_step(
                observation(self.kind, at), at, float(at), {"i": at}, extra_model_outputs={"out": float(at)}
            )
            self.seen.append(at)
            self.steps.append(at)

    def cut(self, lookback: int) -> None:
        before = self.episode.t
        self.episode = self.episode.cut(len_lookback_buffer=lookback)
        self.lookback = min(lookback, len(self.steps))
        self.seen = self.seen[-self.lookback - 1 :]
        self.steps = self.steps[len(self.steps) - self.lookback :]
        assert (self.episode.t_started, self.episode.t, len(self.episode)) == (before, before, 0)
        self.step(self.dice.randint(0, 5))

    def column(self, which: str) -> tuple[list[int], Any]:
        if which == "out":
            return self.steps, lambda *args, **kwargs: self.episode.get_extra_model_outputs(
                "out", *args, **kwargs
            )
        return self.seen if which in ("observations", "infos") else self.steps, getattr(
            self.episode, f"get_{which}"
        )


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_reads_agree_with_a_list_of_steps(start: int) -> None:
    for seed in range(start, start + 50):
        scene = Scene(seed)
        dice = scene.dice
        for _ in range(30):
            which = dice.choice(["observations", "actions", "rewards", "infos", "out"])
            steps, get = scene.column(which)
            back = dice.random() < 0.4

            def place(index: int, back: bool = back, size: int = len(steps), scene: Scene = scene) -> int:
                return scene.lookback + index if index >= 0 or back else size + index

            index = dice.randint(-6, 6)
            if 0 <= place(index) < len(steps):
                assert number(get(index, neg_index_as_lookback=back)) == steps[place(index)], f"seed {seed}"
            first, last = sorted((place(dice.randint(-6, 6)), place(dice.randint(-6, 6))))
            if 0 <= first <= last <= len(steps):
                chosen = slice(first - scene.lookback, last - scene.lookback)
                if not (chosen.stop < 0 or chosen.start < 0):
                    assert numbers(get(chosen)) == steps[first:last], f"seed {seed}"
                elif scene.lookback:
                    found = get(chosen, neg_index_as_lookback=True)
                    assert numbers(found) == steps[first:last], f"seed {seed}"
        assert numbers(scene.episode.get_rewards()) == scene.steps[scene.lookback :]
        assert scene.episode.get_return() == sum(scene.steps[scene.lookback :])


def test_fills_and_one_hot_vectors() -> None:
    episode = SingleAgentEpisode(action_space=gym.spaces.Discrete(4), observation_space=SPACES["box"])
    episode.add_env_reset(observation("box", 0))
    for at in (1, 2, 3):
        episode.add_env_step(observation("box", at), at, at)
    assert [float(each) for each in episode.get_rewards(slice(-6, None), fill=0.0)] == [0, 0, 0, 1, 2, 3]
    assert [float(each) for each in episode.get_rewards(slice(1, 5), fill=0.0)] == [2, 3, 0, 0]
    assert float(episode.get_rewards(7, fill=0.5)) == 0.5
    assert np.asarray(episode.get_actions(-1, one_hot_discrete=True)).tolist() == [0, 0, 0, 1]
    assert np.stack(episode.get_actions(slice(-1, 1), one_hot_discrete=True, neg_index_as_lookback=True, fill=0)).tolist() == [
        [0, 0, 0, 0], [0, 1, 0, 0],
    ]  # fmt: skip
    with pytest.raises(IndexError):
        episode.get_rewards(7)


def test_chunks_join_and_parts_remember() -> None:
    episode = SingleAgentEpisode(id_="x")
    episode.add_env_reset(0)
    for at in range(1, 6):
        episode.add_env_step(at, at, at, extra_model_outputs={"out": at})
    following = episode.cut(len_lookback_buffer=2)
    for at in range(6, 9):
        following.add_env_step(at, at, at, terminated=at == 8, extra_model_outputs={"out": at})
    part = following.slice(slice(1, 3))
    assert (part.t_started, part.t, part.is_terminated, part.get_observations()) == (6, 8, True, [6, 7, 8])
    assert part.get_rewards(-1, neg_index_as_lookback=True) == 6
    assert following[:1].get_actions() == [6] and not following[:1].is_done
    episode.concat_episode(following)
    assert episode.get_observations() == list(range(9)) and episode.get_extra_model_outputs("out") == list(
        range(1, 9)
    )
    assert episode.is_terminated and episode.t == 8 and episode.get_return() == 36
    again = SingleAgentEpisode.from_state(episode.get_state())
    assert again.get_observations() == episode.get_observations() and again.is_terminated and again.id_ == "x"


def test_overwrites() -> None:
    episode = SingleAgentEpisode()
    episode.add_env_reset(0.0)
    for at in (1.0, 2.0, 3.0):
        episode.add_env_step(at, 0, at)
    episode.set_observations(new_data=9.0, at_indices=-1)
    episode.set_rewards(new_data=[7.0, 8.0], at_indices=slice(0, 2))
    assert episode.get_observations() == [0.0, 1.0, 2.0, 9.0] and episode.get_rewards() == [7.0, 8.0, 3.0]
    episode.to_numpy()
    episode.set_rewards(new_data=np.array([1.0, 1.0, 1.0]))
    assert episode.get_return() == 3.0
    with pytest.raises(IndexError):
        episode.set_rewards(new_data=np.array([1.0]), at_indices=slice(0, 2))
    data = episode.get_data_dict()
    assert data["obs"].tolist() == [0.0, 1.0, 2.0] and data["t"].tolist() == [0, 1, 2]


def test_the_steps_of_agents_by_those_of_the_environment() -> None:
    episode = MultiAgentEpisode(
        observations=[{"x": 0}, {"y": 1}, {"x": 2, "y": 2}, {"y": 3}, {"y": 4}],
        actions=[{"x": 0}, {"y": 1}, {"x": 2, "y": 2}, {"y": 3}],
        rewards=[{"x": 0.1}, {"y": 0.2}, {"x": 0.3, "y": 0.3}, {"y": 0.4}],
        len_lookback_buffer=0,
    )
    skip = MultiAgentEpisode.SKIP_ENV_TS_TAG
    episode.validate()
    found = episode.env_t_to_agent_t
    assert found["x"].data == [0, skip, 1, skip, skip] and found["y"].data == [skip, 0, 1, 2, 3]
    assert found["x"].lookback == 0 and found["nobody"].data == []
    episode.add_env_step({"x": 5}, {"y": 5}, {"x": 1.0, "y": 1.0}, terminateds={"y": True})
    assert episode.env_t_to_agent_t["x"].data == [0, skip, 1, skip, skip, 2]
    following = episode.cut()
    assert following.env_t_to_agent_t["x"].get(-1) == 2
    # One that has ended is skipped from then on.
    episode.add_env_step({"x": 6}, {"x": 6}, {"x": 1.0})
    assert episode.env_t_to_agent_t["y"].data == [skip, 0, 1, 2, 3, 4, skip]


def test_slices_beyond_the_ends_are_fills() -> None:
    episode = SingleAgentEpisode(
        observations=[0, 1, 2, 3], actions=[0, 0, 0], rewards=[1.0, 2.0, 3.0], len_lookback_buffer=0
    )
    for finalized in (False, True):
        for slice_ in (slice(100, 102), slice(-12, -10), slice(100, 98), slice(-10, -12)):
            assert np.array_equal(episode.get_rewards(slice_, fill=7.0), [7.0, 7.0])
        assert np.array_equal(episode.get_rewards(slice(2, 5), fill=7.0), [3.0, 7.0, 7.0])
        assert np.array_equal(episode.get_rewards(slice(-5, 1), fill=7.0), [7.0, 7.0, 1.0])
        if not finalized:
            episode.to_numpy()
