"""Small functions on arrays, tensors and spaces that programs import: their figures, and the ways there and back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib import utils
from skate.rllib.core.models.torch import tensor_functions as tensors
from skate.rllib.core.models.torch.padding import same_padding, valid_padding
from skate.rllib.core.models.torch.primitives import normc_initializer
from skate.rllib.env import spaces as space_values
from skate.rllib.env.spaces import FlexDict, Repeated, Simplex
from skate.rllib.policy.sample_batch import SampleBatch, concat_samples
from skate.rllib.utils import numpy as arrays
from skate.rllib.utils.filter import RunningStat
from skate.rllib.utils.postprocessing.value_predictions import extract_bootstrapped_values
from skate.rllib.utils.serialization import gym_space_from_dict, gym_space_to_dict

SPACE = spaces.Dict(
    {"b": spaces.Tuple((spaces.Box(-2.0, 4.0, (3,)), spaces.Discrete(3))), "a": spaces.Box(0.0, np.inf, (1,))}
)


def test_actions_go_to_the_bounds_and_back() -> None:
    action = SPACE.sample()
    struct = space_values.get_base_struct_from_space(SPACE)
    assert isinstance(struct["b"], tuple) and len(space_values.flatten_space(SPACE)) == 3
    small = space_values.normalize_action(action, struct)
    assert np.abs(small["b"][0]).max() <= 1.0 and small["a"] is action["a"], "a is not bounded"
    again = space_values.unsquash_action(small, struct)
    np.testing.assert_allclose(again["b"][0], action["b"][0], atol=1e-6)
    far = {"b": (np.full(3, 9.0, np.float32), 1), "a": np.array([-1.0], np.float32)}
    clipped = space_values.clip_action(far, struct)
    assert clipped["b"][0].tolist() == [4.0] * 3 and clipped["a"].tolist() == [0.0]
    assert space_values.flatten_to_single_ndarray(far).tolist() == [-1.0, 9.0, 9.0, 9.0, 1.0], "by keys"


def test_batches_of_a_space() -> None:
    batch = space_values.get_dummy_batch_for_space(SPACE, 2, fill_value=1.0)
    assert batch["b"][0].shape == (2, 3) and batch["b"][1].tolist() == [1, 1]
    batch = space_values.get_dummy_batch_for_space(SPACE, 2, time_size=4, one_hot_discrete=True)
    assert batch["b"][0].shape == (2, 4, 3) and batch["b"][1].shape == (2, 4, 3), "one-hot, and no number yet"
    assert not batch["b"][1].any() and batch["b"][1].dtype == np.float32
    drawn = space_values.get_dummy_batch_for_space(
        SPACE, 2, fill_value="random", time_size=4, time_major=True
    )
    assert drawn["a"].shape == (4, 2, 1) and set(drawn["b"][1].ravel()) <= {0, 1, 2}
    assert SPACE.contains(
        space_values.get_dummy_batch_for_space(SPACE, 0, fill_value=0.5) | {"b": SPACE.sample()["b"]}
    )
    with pytest.raises(ValueError, match="batch_size=0"):
        space_values.get_dummy_batch_for_space(SPACE, 0, time_size=4)


def test_a_space_of_numbers_that_add_up_to_one() -> None:
    space = space_values.Simplex((2, 3))
    space.seed(1)
    drawn = space.sample()
    assert space.contains(drawn) and drawn.dtype == np.float32 and space == space_values.Simplex([2, 3])
    assert not space.contains(drawn * 2) and not space.contains(drawn[0]) and not space.contains([0.5, 0.5])
    assert space != space_values.Simplex((2, 3), np.array([1, 2, 3])) and "Simplex((2, 3)" in repr(space)
    with pytest.raises(ValueError, match="needs 3 parameters"):
        space_values.Simplex((3,), np.ones(2))


def test_values_get_the_types_of_their_space() -> None:
    loose = {"a": np.zeros(1), "b": (np.zeros(3), 1.0)}
    assert not SPACE.contains(loose)
    assert SPACE.contains(space_values.convert_element_to_space_type(loose, SPACE.sample()))
    with pytest.raises(ValueError, match=r"shape \(1,\)"):
        space_values.convert_element_to_space_type({"a": 0.0, "b": (np.zeros(3), 1)}, SPACE.sample())
    kept = SimpleNamespace(original_space=SimpleNamespace(original_space=SPACE))
    assert space_values.get_original_space(kept) is SPACE


def test_tensors_of_nested_inputs() -> None:
    nested = {
        "b": torch.tensor([[4.0, 5.0], [6.0, 7.0]]),
        "a": (torch.tensor([1, 0]), torch.tensor([[0, 1], [1, 2]])),
    }
    struct = {"b": spaces.Box(0.0, 9.0, (2,)), "a": (spaces.Discrete(2), spaces.MultiDiscrete([2, 3]))}
    flat = tensors.flatten_inputs_to_1d_tensor(nested, struct)
    assert flat.tolist() == [[0, 1, 1, 0, 0, 1, 0, 4, 5], [1, 0, 0, 1, 0, 0, 1, 6, 7]]
    times = {"a": torch.ones(2, 3, dtype=torch.long), "b": torch.ones(2, 3, 4, 5)}
    kinds = {"a": spaces.Discrete(2), "b": spaces.Box(0.0, 1.0, (4, 5))}
    assert tensors.flatten_inputs_to_1d_tensor(times, kinds, time_axis=True).shape == (2, 3, 22)
    copied = tensors.copy_torch_tensors({"x": (nested["b"], 3)})
    assert (
        copied["x"][0] is not nested["b"] and torch.equal(copied["x"][0], nested["b"]) and copied["x"][1] == 3
    )


def test_large_gradients_have_a_norm() -> None:
    gradients = {"a": torch.full((300, 300), 1e22), "b": None, "c": torch.zeros(2)}
    norm = tensors.clip_gradients(gradients, grad_clip=40.0, grad_clip_by="global_norm")
    assert norm is not None and norm.isfinite() and gradients["a"].isfinite().all()
    assert tensors.clip_gradients(gradients, grad_clip=None) is None
    small = {"a": torch.tensor([3.0, 4.0])}
    assert tensors.clip_gradients(small, grad_clip=1.0, grad_clip_by="global_norm") == 5.0
    assert torch.allclose(small["a"], torch.tensor([0.6, 0.8]))
    assert tensors.compute_global_norm([]) == 0.0


def test_numbers_as_weights_of_two_neighbours() -> None:
    values = torch.tensor([2.5, -9.0, 5.0, 0.1])
    made = tensors.two_hot(values, num_buckets=11, lower_bound=-5.0, upper_bound=5.0)
    places = torch.linspace(-5.0, 5.0, 11)
    assert torch.allclose(made @ places, torch.tensor([2.5, -5.0, 5.0, 0.1])) and torch.allclose(
        made.sum(1), torch.ones(4)
    )
    assert ((made > 0).sum(1) <= 2).all()
    assert torch.allclose(tensors.inverse_symlog(tensors.symlog(values)), values)
    logits, labels = torch.randn(3, 4), torch.eye(4)[:3]
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(3), reduction="none")
    assert torch.allclose(tensors.softmax_cross_entropy_with_logits(logits, labels), expected)


def test_values_after_runs_of_steps() -> None:
    # Episodes of 5, 7 and 4 steps, each with a row more; 100 and more are those rows.
    values = np.array([0, 1, 2, 3, 4, 100, 0, 1, 2, 3, 4, 5, 6, 101, 0, 1, 2, 3, 102])
    assert extract_bootstrapped_values(values, [5, 7, 4], 4).tolist() == [4, 3, 101, 102]
    with pytest.raises(ValueError, match="16 steps"):
        extract_bootstrapped_values(values, [5, 7, 4], 3)


def test_lists_and_flat_dicts() -> None:
    assert (utils.force_list(None), utils.force_list(3), utils.force_tuple([1])) == ([], [3], (1,))
    nested = {"b": {"c": 1, "a": 2}, "a": [3, (4, 5)]}
    flat = utils.flatten_dict(nested)
    assert flat == {"a/0": 3, "a/1/0": 4, "a/1/1": 5, "b/a": 2, "b/c": 1}
    assert utils.unflatten_dict({"a-b": 1, "a-c": 2}, sep="-") == {"a": {"b": 1, "c": 2}}


def test_running_statistics() -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, (9, 2))
    first, second = RunningStat((2,)), RunningStat((2,))
    for row in rows[:4]:
        first.push(row)
    for row in rows[4:]:
        second.push(row)
    first.update(second)
    again = RunningStat.from_state(first.copy().to_state())
    assert (again.n, again.num_pushes_delta, second.num_pushes) == (9, 4, 5)
    np.testing.assert_allclose(again.mean, rows.mean(0))
    np.testing.assert_allclose(again.std, rows.std(0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(again.sum_sq_diff_array, rows.var(0) * 9)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        first.push(1.0)


def test_arrays_and_tensors_of_nested_values() -> None:
    given = {"x": (torch.ones(2, dtype=torch.float64), torch.tensor(3)), "y": [np.arange(2), "text"]}
    found = arrays.convert_to_numpy(given)
    assert found["x"][0].dtype == np.float32 and found["x"][1] == 3 and found["y"][0].dtype == np.int32
    plain = arrays.convert_numpy_to_python_primitives(found)
    assert plain == {"x": ([1.0, 1.0], 3), "y": [[0, 1], "text"]}
    back = tensors.convert_to_torch_tensor({"x": np.ones(2), "y": None, "z": np.array(["text"])})
    assert back["x"].dtype == torch.float32 and back["y"] is None and back["z"].tolist() == ["text"]


def test_one_hot_and_softmax() -> None:
    assert arrays.one_hot(np.array([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert arrays.one_hot(True).tolist() == [0, 1]
    with pytest.raises(ValueError, match="needs a depth over 2"):
        arrays.one_hot(np.array([2]), depth=2)
    several = spaces.MultiDiscrete([2, 3])
    expected = [[0, 1, 1, 0, 0]]
    assert tensors.one_hot(torch.tensor([[1, 0]]), several).tolist() == expected
    assert arrays.one_hot_multidiscrete(np.array([[1, 0]]), [2, 3]).tolist() == expected
    with pytest.raises(ValueError, match="Discrete or MultiDiscrete"):
        tensors.one_hot(torch.zeros(1), spaces.Box(0, 1))
    logits = np.array([[1000.0, 1000.0], [0.0, np.log(3.0)]])
    np.testing.assert_allclose(arrays.softmax(logits), [[0.5, 0.5], [0.25, 0.75]])
    lengths = torch.tensor([1, 3])
    assert tensors.sequence_mask(lengths).tolist() == [[True, False, False], [True, True, True]]
    assert float(tensors.explained_variance(torch.arange(4.0), torch.arange(4.0))) == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", [3, 4])
def test_borders_are_those_that_convolutions_need(kernel: int) -> None:
    image = torch.zeros(1, 1, 11, 7)
    borders, out = same_padding((11, 7), kernel, 2)
    layer = torch.nn.Conv2d(1, 1, kernel, 2)
    assert tuple(layer(torch.nn.functional.pad(image, borders)).shape[2:]) == out == (6, 4)
    assert tuple(layer(image).shape[2:]) == valid_padding((11, 7), [kernel, kernel], (2, 2))
    weights = torch.empty(5, 8)
    normc_initializer(0.1)(weights)
    np.testing.assert_allclose(weights.norm(dim=1), 0.1, rtol=1e-5)


def test_a_batch_counts_its_rows() -> None:
    batch = SampleBatch({SampleBatch.OBS: {"a": np.arange(6).reshape(3, 2)}, SampleBatch.REWARDS: np.ones(3)})
    assert (batch.count, len(batch), bool(SampleBatch())) == (3, 3, False)
    assert batch.slice(1, 3)["obs"]["a"].tolist() == [[2, 3], [4, 5]]
    assert batch.as_multi_agent().agent_steps() == 3
    parts = [SampleBatch(rewards=np.zeros(2)), SampleBatch(rewards=np.ones(1))]
    assert concat_samples(parts)["rewards"].tolist() == [0, 0, 1]


class Chance:
    """A game of chance of two players in turns: the first to play the higher of two numbers wins."""

    class State:
        def __init__(self) -> None:
            self.drawn, self.moves = -1, [-1, -1]

        def is_chance_node(self) -> bool:
            return self.drawn < 0

        def chance_outcomes(self) -> list[tuple[int, float]]:
            return [(1, 1.0)]

        def current_player(self) -> int:
            return -1 if self.drawn < 0 else self.moves.index(-1)

        def legal_actions(self, player: int) -> list[int]:
            return [0, 1]

        def apply_action(self, action: int) -> None:
            if self.drawn < 0:
                self.drawn = action
            else:
                self.moves[self.moves.index(-1)] = action

        def is_terminal(self) -> bool:
            return -1 not in self.moves

        def returns(self) -> list[float]:
            won = float(self.moves[0] > self.moves[1])
            return [won, -won] if self.is_terminal() else [0.0, 0.0]

        def observation_tensor(self, player: int) -> list[float]:
            return [float(player), float(self.drawn)]

    def num_players(self) -> int:
        return 2

    def get_type(self) -> SimpleNamespace:
        return SimpleNamespace(dynamics="Dynamics.SEQUENTIAL")

    def observation_tensor_size(self) -> int:
        return 2

    def num_distinct_actions(self) -> int:
        return 9

    def new_initial_state(self) -> Chance.State:
        return Chance.State()


def test_a_game_of_openspiel_is_played_in_turns() -> None:
    from skate.rllib.env.wrappers.open_spiel import OpenSpielEnv

    env = OpenSpielEnv(Chance())
    observations, _ = env.reset(seed=3)
    assert observations[0].tolist() == [0.0, 1.0] and list(observations) == [0]
    observations, rewards, terminateds, _, _ = env.step({0: 1})
    assert list(observations) == [1] and rewards == {0: 0.0, 1: 0.0} and not terminateds["__all__"]
    # An action that is not allowed costs a little, and another one is made.
    observations, rewards, terminateds, truncateds, _ = env.step({1: 8})
    assert observations == {} and rewards[1] == pytest.approx(-rewards[0] - 0.1)
    assert terminateds == {0: True, 1: True, "__all__": True} and not any(truncateds.values())


def test_a_space_of_texts_as_a_dict() -> None:
    space = spaces.Text(5, charset="abc")
    assert gym_space_from_dict(json.loads(json.dumps(gym_space_to_dict(space)))) == space
    with pytest.raises(ValueError, match="has no form as a dict"):
        gym_space_to_dict(spaces.Sequence(space))
    with pytest.raises(ValueError, match="'shape' is not known; there are"):
        gym_space_from_dict({"space": "shape"})


def test_simplexes_and_lists_become_dicts_and_a_dict_space_can_grow() -> None:
    simplex = Simplex(shape=(3, 2), concentration=np.array([1, 2]), dtype=np.float64)
    several = Repeated(spaces.Box(-1, 1, (2,)), max_len=8)
    for space in (simplex, several, spaces.Tuple([several, simplex])):
        made: Any = gym_space_from_dict(gym_space_to_dict(space))
        assert made == space and made.dtype == space.dtype
    growing = FlexDict({"a": spaces.Discrete(2)})
    growing["b"] = spaces.Box(0, 1, (2,))
    assert growing.contains(growing.sample()) and repr(growing).startswith("FlexDict(a:Discrete(2), b:Box(")
    again: Any = gym_space_from_dict(gym_space_to_dict(growing))
    assert list(again.spaces) == ["a", "b"]
    with pytest.raises(AssertionError, match="'c' got 3"):
        growing["c"] = 3  # type: ignore[assignment]
