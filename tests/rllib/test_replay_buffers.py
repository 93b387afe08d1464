"""Replay buffers: windows of steps against a walk over the episodes, priorities, and state."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skate.rllib.core.columns import Columns
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.factory import make_replay_buffer
from skate.rllib.utils.replay_buffers.ring import ColumnRing
from skate.rllib.utils.replay_buffers.sum_tree import SumTree

Step = dict[str, float]


class Lanes:
    """Lanes of endless episodes; every observation is a number of its own."""

    def __init__(self, count: int, seed: int, first: float = 0.0) -> None:
        self.numbers = np.random.default_rng(seed)
        self.next_name = first
        self.now = [self.name() for _ in range(count)]
        self.reset_next = [False] * count
        self.episodes: list[list[list[Step]]] = [[[]] for _ in range(count)]

    def name(self) -> float:
        self.next_name += 1
        return self.next_name

    def rollout(self, steps: int) -> Rollout:
        lanes = len(self.now)
        columns = {
            Columns.OBS: np.zeros((steps, lanes, 1), np.float32),
            Columns.REWARDS: self.numbers.normal(size=(steps, lanes)).astype(np.float32),
            Columns.TERMINATEDS: np.zeros((steps, lanes), bool),
            Columns.TRUNCATEDS: np.zeros((steps, lanes), bool),
        }
        valid, after = np.ones((steps, lanes), bool), np.zeros((steps, lanes, 1), np.float32)
        for t in range(steps):
            for n in range(lanes):
                columns[Columns.OBS][t, n] = self.now[n]
                if self.reset_next[n]:
                    valid[t, n], self.reset_next[n] = False, False
                    self.now[n] = self.name()
                    continue
                end, cut = self.numbers.random(2) < 0.15
                columns[Columns.TERMINATEDS][t, n], columns[Columns.TRUNCATEDS][t, n] = end, cut
                following = self.name()
                after[t, n] = following
                step = {
                    "obs": self.now[n],
                    "reward": columns[Columns.REWARDS][t, n],
                    "end": end,
                    "next": following,
                }
                self.episodes[n][-1].append(step)
                self.now[n] = following
                if end or cut:
                    self.episodes[n].append([])
                    self.reset_next[n] = bool(self.numbers.random() < 0.5)
                    if not self.reset_next[n]:
                        self.now[n] = self.name()
        return Rollout(columns=columns, valid=valid, next_obs=after)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 999),
)
def test_a_window_is_what_a_walk_over_the_episode_finds(
    lanes: int, lengths: list[int], n_step: int, seed: int
) -> None:
    groups = [Lanes(lanes, seed), Lanes(1, seed + 1, 1e5)]
    ring = ColumnRing(24)
    for steps in lengths:
        ring.add([group.rollout(steps) for group in groups])
    found = ring.windows(np.arange(ring.size), np.full(ring.size, n_step), 0.9)
    walked: dict[float, tuple[float, float, bool, int]] = {}
    for group in groups:
        for episode in (episode for lane in group.episodes for episode in lane):
            for start, step in enumerate(episode):
                window = episode[start : start + n_step]
                total = sum(0.9**k * float(each["reward"]) for k, each in enumerate(window))
                walked[step["obs"]] = (total, window[-1]["next"], bool(window[-1]["end"]), len(window))
    for row in range(ring.size):
        total, following, end, count = walked[float(found[Columns.OBS][row, 0])]
        mine = found["n_step"][row], found[Columns.NEXT_OBS][row, 0], bool(found[Columns.TERMINATEDS][row])
        assert mine == (count, following, end)
        assert found[Columns.REWARDS][row] == pytest.approx(total, abs=1e-5)


def test_only_the_newest_steps_stay_and_a_replaced_runner_does_not_continue_an_episode() -> None:
    first, second = Lanes(1, 3), Lanes(1, 4, 500.0)
    buffer = EpisodeReplayBuffer(8, seed=1)
    for lanes in (first, first, second):
        fragment = lanes.rollout(4)
        fragment.columns[Columns.TERMINATEDS][:] = fragment.columns[Columns.TRUNCATEDS][:] = False
        fragment.valid[:] = True
        buffer.add([fragment])
    assert len(buffer) == 8 and buffer.get_added_timesteps() == 12
    rows = buffer.sample(200, n_step=8, gamma=1.0)["default_policy"]
    old = rows[Columns.OBS][:, 0] < 500
    assert (rows[Columns.NEXT_OBS][old, 0] < 500).all() and (rows["n_step"][old] <= 4).all()


def test_single_steps_are_linked_as_those_of_a_longer_fragment() -> None:
    whole, single = ColumnRing(40), ColumnRing(40)
    for _ in range(4):
        fragment = Lanes(3, 5).rollout(12)
        fragment.columns[Columns.ACTION_LOGP] = np.zeros((12, 3), np.float32)
        whole.add([fragment])
        for t in range(12):
            columns = {name: column[t : t + 1] for name, column in fragment.columns.items()}
            single.add([Rollout(columns, fragment.valid[t : t + 1], fragment.next_obs[t : t + 1])])
    mine, theirs = (ring.get_state() for ring in (single, whole))
    assert mine["tails"] == theirs["tails"] and np.array_equal(mine["next"], theirs["next"])
    assert all(np.array_equal(column, theirs["columns"][name]) for name, column in mine["columns"].items())
    assert Columns.ACTION_LOGP not in mine["columns"], "learners compute it anew"


def test_a_range_of_steps_draws_every_length() -> None:
    buffer = EpisodeReplayBuffer(50, seed=1)
    fragment = Lanes(1, 3).rollout(50)
    fragment.columns[Columns.TERMINATEDS][:] = fragment.columns[Columns.TRUNCATEDS][:] = False
    fragment.valid[:] = True
    buffer.add(fragment)
    assert set(buffer.sample(500, n_step=(2, 4))["default_policy"]["n_step"].tolist()) >= {2.0, 3.0, 4.0}


def walk(name: float, steps: int, **ends: bool) -> SingleAgentEpisode:
    """Return an episode whose observations, actions and rewards count from a number."""
    numbers = [name + step for step in range(steps + 1)]
    return SingleAgentEpisode(
        id_=str(name),
        observations=[np.array([number], np.float32) for number in numbers],
        actions=[np.array([number], np.float32) for number in numbers[:-1]],
        rewards=numbers[:-1],
        len_lookback_buffer=0,
        **ends,
    )


@pytest.mark.parametrize("kind", [EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer])
def test_episodes_in_parts_are_stored_and_drawn_as_episodes_of_one_step(kind: type) -> None:
    whole, cut = walk(0.0, 4, terminated=True), walk(100.0, 6, truncated=True)
    buffer = kind(50, seed=5)
    buffer.add([whole, cut[:2]])
    buffer.add(cut[2:].to_numpy())
    assert len(buffer) == buffer.get_added_timesteps() == 10
    drawn = buffer.sample(300, n_step=3, gamma=1.0, sample_episodes=True, to_numpy=True)
    rows = {float(each.get_observations(0)[0]): each for each in drawn}
    starts = {0.0, 1.0, 2.0, 3.0, *(100.0 + step for step in range(6))}
    # As Ray's, a prioritized buffer draws episodes of all three steps alone.
    assert set(rows) == (starts if kind is EpisodeReplayBuffer else starts - {2.0, 3.0, 104.0, 105.0})
    for first, each in rows.items():
        last = min(first + 3, 4.0 if first < 100 else 106.0)
        assert len(each) == 1 and each.is_numpy and each.get_observations(-1).tolist() == [last]
        assert each.get_actions(0).tolist() == [first]
        assert each.get_return() == sum(np.arange(first, last))
        assert (each.is_terminated, each.is_truncated) == (last == 4.0, last == 106.0)
        assert each.get_extra_model_outputs("n_step", 0) == last - first
        assert each.get_extra_model_outputs("weights", 0) == 1.0


def test_buffers_say_what_they_do_not_keep() -> None:
    buffer = EpisodeReplayBuffer(50)
    nested = SingleAgentEpisode(
        observations=[{"a": 1}, {"a": 2}], actions=[0], rewards=[1.0], len_lookback_buffer=0
    )
    buffer.add(nested)
    assert buffer.sample(1, sample_episodes=True)[0].get_observations() == [{"a": 1}, {"a": 2}]
    with pytest.raises(ValueError, match="FlattenObservations"):
        buffer.sample(1)
    with pytest.raises(TypeError, match="fragments or single-agent episodes"):
        buffer.add([walk(0.0, 2), Lanes(1, 0).rollout(2)])
    of_fragments = EpisodeReplayBuffer(50)
    of_fragments.add(Lanes(1, 0).rollout(2))
    with pytest.raises(TypeError, match="holds fragments"):
        of_fragments.add(walk(0.0, 2))
    with pytest.raises(ValueError, match="no lookback, batch_length_T=8"):
        of_fragments.sample(1, batch_length_T=8, lookback=2, sample_episodes=True)
    with pytest.raises(ValueError, match="no include_infos"):
        of_fragments.sample(1, include_infos=True)


def test_rows_of_several_steps_go_from_episode_to_episode() -> None:
    buffer = EpisodeReplayBuffer(100, batch_length_T=7, seed=2)
    buffer.add([walk(0.0, 3, terminated=True), walk(100.0, 5, truncated=True), walk(200.0, 2)])
    rows = buffer.sample(50)
    assert {name: column.shape for name, column in rows.items()} == {
        "obs": (50, 7, 1), "actions": (50, 7, 1), **dict.fromkeys(
            ("rewards", "is_first", "is_last", "is_terminated", "is_truncated"), (50, 7)
        ),
    }  # fmt: skip
    assert set(buffer.sample(3, batch_length_T=2)["obs"].shape) == {3, 2, 1}
    for row in range(50):
        numbers, first, last = rows["obs"][row, :, 0], rows["is_first"][row], rows["is_last"][row]
        assert first[0] and last[-1] and (first[1:] == last[:-1]).all()
        for at in range(7):
            number = numbers[at]
            assert number % 100 == 0 or not first[at] or at == 0
            if not first[at]:
                assert number == numbers[at - 1] + 1
            ends = {3.0: "is_terminated", 105.0: "is_truncated", 202.0: None}
            for name in ("is_terminated", "is_truncated"):
                assert rows[name][row, at] == (ends.get(number) == name)
            # The action repeats at the end; the reward is that of the step before, and none at the beginning.
            assert rows["actions"][row, at, 0] == number - (number in ends)
            assert rows["rewards"][row, at] == (0.0 if number % 100 == 0 else number - 1)
    assert rows["is_first"].sum() - 50 > 20 and len(set(rows["obs"][:, 0, 0])) == 10


@pytest.mark.parametrize("kind", [EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer])
def test_of_episodes_the_oldest_go_as_wholes(kind: type) -> None:
    buffer = kind(10, seed=1)
    for name, steps in ((0.0, 4), (100.0, 5), (200.0, 3)):
        buffer.add(walk(name, steps))
    assert [each.id_ for each in buffer.episodes] == ["100.0", "200.0"]
    counts = buffer.get_num_episodes(), buffer.get_num_timesteps(), buffer.get_num_episodes_evicted()
    assert counts == (2, 8, 1) and buffer.get_added_timesteps() == 12
    rows = buffer.sample(64, sample_episodes=False)["default_policy"]
    assert set(rows["obs"][:, 0]) == {*range(100, 105), *range(200, 203)}
    buffer.update_priorities(np.where(rows["obs"][:, 0] == 202, 1e3, 0.0))
    assert buffer.get_sampled_timesteps() == 64
    often = buffer.sample(64, sample_episodes=False)["default_policy"]["obs"] == 202
    assert often.mean() > 0.9 or kind is EpisodeReplayBuffer
    other = kind(10, seed=1)
    other.set_state(pickle.loads(pickle.dumps(buffer.get_state())))
    for each in (buffer, other):
        each.add(walk(300.0, 6, truncated=True))
    mine, theirs = (
        each.sample(16, sample_episodes=False)["default_policy"]["obs"] for each in (buffer, other)
    )
    assert mine.tolist() == theirs.tolist() and len(other) == 9
    assert buffer.get_metrics()["num_agent_steps_evicted"] == {"default_agent": 9}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=40), st.data())
def test_a_tree_finds_the_leaf_that_a_mass_falls_in(priorities: list[float], data: st.DataObject) -> None:
    tree = SumTree(len(priorities))
    tree[np.arange(len(priorities))] = 5.0
    tree[np.arange(len(priorities))] = np.array(priorities)
    assert tree.total == pytest.approx(sum(priorities))
    if tree.total < 1e-9:
        return
    shares = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20)))
    bounds = np.cumsum(priorities)
    for mass, leaf in zip(shares * tree.total, tree.find(shares * tree.total), strict=True):
        assert priorities[leaf] > 0
        assert bounds[leaf] - priorities[leaf] - 1e-6 <= mass <= bounds[leaf] + 1e-6


def test_steps_are_drawn_by_their_errors_and_weigh_the_less() -> None:
    buffer = PrioritizedEpisodeReplayBuffer(4, alpha=1.0, seed=2)
    fragment = Lanes(1, 3).rollout(4)
    fragment.valid[:] = True
    buffer.add([fragment])
    rows = buffer.sample(4, beta=1.0)["default_policy"]
    assert rows["weights"].tolist() == [1.0] * 4
    names = rows[Columns.OBS][:, 0]
    buffer.update_priorities({"default_policy": np.where(names == names[0], 3.0, 1.0)})
    rows = buffer.sample(6000, beta=1.0)["default_policy"]
    often = rows[Columns.OBS][:, 0] == names[0]
    assert abs(often.mean() - 0.5) < 0.01
    assert np.allclose(rows["weights"][often], 1 / 3) and np.allclose(rows["weights"][~often], 1.0)
    with pytest.raises(ValueError, match="6000 rows"):
        buffer.update_priorities(np.ones(3))


@pytest.mark.parametrize("kind", ["EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer"])
def test_a_saved_buffer_draws_what_the_first_one_draws(kind: str) -> None:
    config = SimpleNamespace(replay_buffer_config={"type": kind, "capacity": 20, "beta": 0.4}, seed=3)
    first, second = make_replay_buffer(config), make_replay_buffer(config)
    lanes = Lanes(2, 1)
    first.add([lanes.rollout(8)])
    drawn = len(first.sample(4)["default_policy"]["weights"])
    first.update_priorities(np.arange(drawn))
    second.set_state(pickle.loads(pickle.dumps(first.get_state())))
    fragment = lanes.rollout(5)
    for buffer in (first, second):
        buffer.add([fragment])
    for _ in range(3):
        mine, theirs = (buffer.sample(16, n_step=3, beta=0.4)["default_policy"] for buffer in (first, second))
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_mistakes_with_buffers_are_answered() -> None:
    with pytest.raises(ValueError, match="empty"):
        EpisodeReplayBuffer().sample(1)
    with pytest.raises(ValueError, match="longer than the capacity"):
        EpisodeReplayBuffer(3).add(Lanes(2, 0).rollout(10))
    with pytest.raises(ValueError, match="no replay buffer 'Big'"):
        make_replay_buffer(SimpleNamespace(replay_buffer_config={"type": "Big"}))
