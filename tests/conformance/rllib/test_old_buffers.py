"""Batches of columns, and the replay buffers of them: what a slice has, what is stored, drawn and overwritten."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch, concat_samples
from ray.rllib.utils.replay_buffers import (
    FifoReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReservoirReplayBuffer,
    StorageUnit,
)
from ray.rllib.utils.replay_buffers.utils import sample_min_n_steps_from_buffer


def steps(values: list[int], **more: Any) -> Any:
    return SampleBatch({"a": values, **more})


def listed(parts: list[Any]) -> list[list[int]]:
    return [part["a"].tolist() for part in parts]


def test_a_batch_is_cut_by_steps_sequences_and_episodes() -> None:
    of_ids = steps([1, 2, 3], eps_id=[0, 0, 1])
    of_ends = steps([1, 2, 3, 4, 5], terminateds=[0, 0, 1, 0, 0], truncateds=[0, 0, 0, 1, 0])
    assert listed(of_ids.split_by_episode()) == [[1, 2], [3]]
    assert listed(of_ends.split_by_episode()) == [[1, 2, 3], [4], [5]]
    assert listed(of_ends.split_by_episode(key="dones")) == [[1, 2, 3], [4], [5]]
    with pytest.raises(KeyError):
        of_ends.split_by_episode(key="eps_id")
    assert of_ends["dones"].tolist() == [0, 0, 1, 0, 0]
    assert listed(of_ends.timeslices(num_slices=2)) == [[1, 2], [3, 4, 5]]
    assert listed(of_ids.timeslices(1)) == [[1], [2], [3]]
    assert not of_ends.is_single_trajectory()
    assert of_ends[3:4].is_terminated_or_truncated()

    nested = steps(
        list(range(6)), n={"x": np.arange(12).reshape(6, 2)}, infos=[{}] * 6, state_in_0=np.ones((3, 4)), seq_lens=[1, 2, 3]
    )  # fmt: skip
    assert (len(nested), nested.count, nested.max_seq_len) == (6, 6, 3)
    part = nested[1:3]
    assert (part["a"].tolist(), part["seq_lens"].tolist(), part["n"]["x"].shape) == ([1, 2], [2], (2, 2))
    assert (len(part["infos"]), part["state_in_0"].shape) == (2, (1, 4))
    assert nested[0:5]["a"].tolist() == [0, 1, 2]
    both = concat_samples([nested, nested, SampleBatch()])
    assert (both.count, both["seq_lens"].tolist(), len(both["infos"])) == (12, [1, 2, 3, 1, 2, 3], 12)
    assert list(steps([1, 2], seq_lens=[2]).rows()) == [{"a": 1, "seq_lens": 1}, {"a": 2, "seq_lens": 1}]
    with pytest.raises(ValueError):
        nested.shuffle()
    assert repr(of_ids) == "SampleBatch(3: ['a', 'eps_id'])"


def test_copies_and_sizes_of_batches() -> None:
    batch = SampleBatch({"a": np.zeros(4), "b": np.zeros((4, 2), np.float32)})
    assert batch.size_bytes() == 64
    for shallow in (False, True):
        batch.copy(shallow=shallow)["a"][0] = 1.0
        assert batch["a"][0] == float(shallow)
    assert batch.columns(["b"])[0] is batch["b"]
    mixed = steps(list(range(50)), b=list(range(50))).shuffle()
    assert mixed["a"].tolist() == mixed["b"].tolist() != list(range(50))


def test_steps_of_several_modules_are_cut_together() -> None:
    batch = MultiAgentBatch(
        {
            "p": steps([1, 2, 3], eps_id=[0, 0, 0], t=[0, 1, 2], agent_index=[0, 0, 0]),
            "q": steps([4, 5], eps_id=[0, 0], t=[0, 2], agent_index=[1, 1]),
        },
        3,
    )
    first, second = batch.timeslices(2)
    assert (first.env_steps(), first.agent_steps(), listed([first["p"], first["q"]])) == (2, 3, [[1, 2], [4]])
    assert listed([second["p"], second["q"]]) == [[3], [5]]
    joined = concat_samples([batch, steps([9])])
    assert (joined.env_steps(), list(joined.policy_batches)) == (4, ["p", "q", "default_policy"])
    alone = steps([1, 2])
    assert MultiAgentBatch.wrap_as_needed({"default_policy": alone}, 2) is alone
    buffer = ReplayBuffer(capacity=2)
    buffer.add(batch)
    assert (len(buffer), buffer.stats()["added_count"]) == (2, 3)


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_each_unit_of_a_buffer(kind: Any) -> None:
    more = {"beta": 0.5} if kind is PrioritizedReplayBuffer else {}

    def drawn(buffer: Any) -> set[int]:
        return {int(buffer.sample(1, **more)["a"][0]) for _ in range(200)}

    single = kind(capacity=3)
    single.add(steps([1, 2]))
    assert (len(single), single.stats()["eviction_started"]) == (2, False)
    single.add(steps([3, 4]))
    assert (drawn(single), single.stats()["eviction_started"], single.stats()["added_count_wrapped"]) == (
        {2, 3, 4},
        True,
        1,
    )
    assert len(single.sample(7, **more)) == 7

    sequences = kind(capacity=4, storage_unit="sequences")
    sequences.add(steps([1, 2, 2, 3], seq_lens=[1, 2, 1]))
    assert (len(sequences), drawn(sequences)) == (3, {1, 2, 3})
    sequences.add(steps([5, 5, 5], seq_lens=[3]))
    assert drawn(sequences) == {5, 2, 3}

    episodes = kind(capacity=10, storage_unit=StorageUnit.EPISODES)
    episodes.add(
        steps([1, 1, 2, 3, 3], t=[0, 1, 0, 1, 2], eps_id=[1, 1, 2, 3, 3], terminateds=[0, 1, 0, 0, 1], truncateds=[0] * 5)
    )  # fmt: skip
    assert drawn(episodes) == {1}
    fragments = kind(capacity=10, storage_unit="fragments")
    fragments.add(steps([1, 1]))
    fragments.add(steps([]))
    fragments.add(steps([2]))
    assert (len(fragments), drawn(fragments)) == (2, {1, 2})

    other = kind(capacity=10, storage_unit="fragments")
    other.set_state(fragments.get_state())
    assert (len(other), other.stats(), drawn(other)) == (2, fragments.stats(), {1, 2})


def test_what_buffers_refuse() -> None:
    for wrong in ({"capacity": 0}, {"storage_unit": "days"}):
        with pytest.raises(ValueError):
            ReplayBuffer(**wrong)
    with pytest.raises(ValueError, match="empty"):
        ReplayBuffer().sample(1)
    with pytest.raises(ValueError, match="empty"):
        PrioritizedReplayBuffer().sample(1, beta=1.0)


def test_priorities_of_items() -> None:
    buffer = PrioritizedReplayBuffer(capacity=4, alpha=1.0)
    for value, weight in ((0, 1.0), (1, 1.0), (2, None), (3, 3.0)):
        buffer.add(steps([value]), weight=weight)
    batch = buffer.sample(600, beta=1.0)
    counts = Counter(batch["a"].tolist())
    assert counts[3] == pytest.approx(300, abs=75)
    assert batch["batch_indexes"].tolist() == batch["a"].tolist()
    np.testing.assert_allclose(batch["weights"], np.where(batch["a"] == 3, 1 / 3, 1.0))
    np.testing.assert_allclose(buffer.sample(5, beta=0.0)["weights"], 1.0)

    buffer.update_priorities(np.array([0, 1, 3]), np.array([1e-6, 1e-6, 1e-6]))
    restored = PrioritizedReplayBuffer(capacity=4, alpha=1.0)
    restored.set_state(buffer.get_state())
    for each in (buffer, restored):
        assert Counter(each.sample(100, beta=1.0)["a"].tolist())[2] > 97
    # A new item gets the highest priority that there was.
    buffer.update_priorities([2], [8.0])
    buffer.add(steps([7]))
    assert Counter(buffer.sample(400, beta=1.0)["a"].tolist())[7] == pytest.approx(200, abs=70)


def test_a_queue_and_a_reservoir() -> None:
    queue = FifoReplayBuffer()
    assert len(queue.sample()) == 0
    queue.add(steps([1, 2]))
    queue.add(steps([3]))
    assert [queue.sample()["weights"].tolist(), queue.sample()["a"].tolist()] == [[1.0, 1.0], [3]]
    assert (queue.stats(), queue.get_state()) == ({}, {})

    reservoir = ReservoirReplayBuffer(capacity=101)
    for value in range(1000):
        reservoir.add(steps([value]))
    stats = reservoir.stats()
    assert (len(reservoir), stats["num_add_calls"], stats["eviction_started"]) == (100, 1000, True)
    assert reservoir.sample(1000)["a"].mean() == pytest.approx(500, abs=150)
    other = ReservoirReplayBuffer(capacity=101)
    other.set_state(reservoir.get_state())
    assert other.stats() == reservoir.stats()


def test_items_are_drawn_until_they_have_enough_steps() -> None:
    buffer = ReplayBuffer(capacity=10, storage_unit="fragments")
    buffer.add(steps([1, 2, 3]))
    assert len(sample_min_n_steps_from_buffer(buffer, 7, count_by_agent_steps=False)) == 9
