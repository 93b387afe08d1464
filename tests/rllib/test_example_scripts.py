"""Names that programs import beside the algorithms: experiments from the command line, checks, padding and value targets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import skate as ray
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.env.nested import BatchedNdArray
from skate.rllib.env.spaces import Repeated
from skate.rllib.flow.parallel_sample import synchronous_parallel_sample
from skate.rllib.scripts.checks import (
    check,
    check_learning_achieved,
    check_train_results_new_api_stack,
)
from skate.rllib.scripts.experiments import run_rllib_example_script_experiment, should_stop
from skate.rllib.scripts.options import add_rllib_example_script_args
from skate.rllib.utils.lambda_defaultdict import LambdaDefaultDict
from skate.rllib.utils.postprocessing.padded_sequences import (
    create_mask_and_seq_lens,
    split_and_zero_pad,
    split_and_zero_pad_n_episodes,
    unpad_data_if_necessary,
)
from skate.rllib.utils.postprocessing.value_predictions import compute_value_targets


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def small() -> PPOConfig:
    """Return a configuration whose iteration takes a tenth of a second."""
    return (
        PPOConfig()
        .training(train_batch_size=128, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )


def options(*words: str) -> Any:
    return add_rllib_example_script_args(default_iters=2, default_reward=1.0).parse_args(
        ["--env=CartPole-v1", "--num-env-runners=0", *words]
    )


def test_an_experiment_runs_as_a_search_and_is_measured(session: None, capsys: Any) -> None:
    results = run_rllib_example_script_experiment(
        small(), options("--as-test", "--num-envs-per-env-runner=2", "--evaluation-interval=1"),
        stop={"training_iteration": 1}, keep_ray_up=True,
    )  # fmt: skip
    assert results[0].config["num_envs_per_env_runner"] == 2
    assert "evaluation" in results[0].metrics
    assert "of 1.0 reached" in capsys.readouterr().out
    check_learning_achieved(results, 1.0)
    with pytest.raises(ValueError, match="of 900 was not reached"):
        check_learning_achieved(results, 900)
    with pytest.raises(ValueError, match="no trial has reported `env_runners/speed`"):
        check_learning_achieved(results, 1, metric="env_runners/speed")


def test_an_experiment_runs_in_a_loop_until_a_bound(session: None, capsys: Any) -> None:
    result = run_rllib_example_script_experiment(
        small(), options("--no-tune", "--stop-timesteps=10"), keep_ray_up=True
    )
    assert result["training_iteration"] == 1
    assert check_train_results_new_api_stack(result) is result
    assert "iteration 1: mean return" in capsys.readouterr().out
    with pytest.raises(AssertionError, match="no timers"):
        check_train_results_new_api_stack({key: value for key, value in result.items() if key != "timers"})


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--enable-new-api-stack"], "there is one stack"),
        (["--local-mode"], "--num-env-runners=0"),
        (["--num-gpus=1"], "--num-gpus-per-learner=1"),
        (["--as-test", "--no-tune"], "needs a search"),
        (["--num-gpus-per-learner=64"], "needs 64.0 GPUs"),
    ],
)
def test_options_that_are_not_available_are_answered(session: None, words: list[str], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        run_rllib_example_script_experiment(small(), options(*words), keep_ray_up=True)


def test_a_figure_that_is_absent_or_not_a_number_stops_nothing() -> None:
    result = {"a": {"b": 2.0, "c": float("nan"), "d": "words"}}
    for key, stops in (("a/b", True), ("a/c", False), ("a/d", False), ("a/x", False), ("a/b/x", False)):
        assert should_stop({key: 2.0}, result, keep_ray_up=True) is stops
    assert not should_stop({"a/b": 2.5}, result)


def test_runners_sample_until_there_are_enough_steps() -> None:
    config = small().environment("CartPole-v1").env_runners(num_env_runners=0, rollout_fragment_length=10)
    algorithm = config.build_algo()
    group = algorithm.env_runner_group
    episodes, metrics = synchronous_parallel_sample(worker_set=group, max_env_steps=25, _return_metrics=True)
    assert sum(map(len, episodes)) == 30 and len(metrics) == 3
    ((first, *_),) = synchronous_parallel_sample(worker_set=group, concat=False)
    assert len(first.get_extra_model_outputs("action_logp")) == len(first) > 0
    with pytest.raises(ValueError, match="not both"):
        synchronous_parallel_sample(worker_set=group, max_env_steps=1, max_agent_steps=1)
    algorithm.stop()


def test_nested_values_are_compared_up_to_a_tolerance() -> None:
    check({"a": [1.0, (2, None)], "b": "x"}, {"a": [1.000001, (2, None)], "b": "x"})
    check(torch.ones(2), np.ones(2))
    check([1.0, float("nan")], [1.1, float("nan")], atol=0.2)
    check(3, 4, false=True)
    check(True, True)
    for x, y in (
        (1, 1.1),
        ({"a": 1}, {"b": 1}),
        ([1], [1, 2]),
        ("x", "y"),
        (np.ones(2), np.ones(3)),
        (None, 1),
    ):
        with pytest.raises(AssertionError):
            check(x, y)
    with pytest.raises(AssertionError, match="equals"):
        check(np.ones(2), np.ones(2), false=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 7), st.booleans()), min_size=1, max_size=5), st.integers(0, 99))
def test_value_targets_follow_each_episode_back_from_its_end(
    episodes: list[tuple[int, bool]], seed: int
) -> None:
    numbers = np.random.default_rng(seed)
    columns: list[tuple[np.ndarray, ...]] = []
    expected: list[float] = []
    for steps, terminated in episodes:
        values, rewards = numbers.normal(size=(2, steps + 1))
        end, cut = np.zeros((2, steps + 1), bool)
        end[steps - 1], cut[steps - 1] = terminated, not terminated
        columns.append((values, rewards, end, cut))
        # The target of a step is one reward and the mean of what comes after it: the critic's word and the next target.
        target = after = 0.0 if terminated else values[steps]
        mine = []
        for step in range(steps - 1, -1, -1):
            target = rewards[step] + 0.9 * (0.3 * after + 0.7 * target)
            after = values[step]
            mine.append(target)
        expected += [*reversed(mine), np.nan]
    found = compute_value_targets(*map(np.concatenate, zip(*columns, strict=True)), 0.9, 0.7)
    real = ~np.isnan(expected)
    np.testing.assert_allclose(found[real], np.array(expected)[real], atol=1e-5)
    assert found.dtype == np.float32


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 5))
def test_sequences_hold_the_rows_of_one_episode_and_give_them_back(lengths: list[int], size: int) -> None:
    rows = np.arange(1, sum(lengths) + 1)
    pieces = np.stack(split_and_zero_pad_n_episodes(rows, lengths, size))
    assert unpad_data_if_necessary(lengths, pieces).tolist() == rows.tolist()
    assert unpad_data_if_necessary(lengths, rows) is rows
    masks = [mask for length in lengths for mask in create_mask_and_seq_lens(length, size)[0]]
    assert np.array_equal(np.stack(masks), pieces > 0)
    assert sum(sum(create_mask_and_seq_lens(length, size)[1]) for length in lengths) == len(rows)


def test_items_and_batches_of_them_are_split_alike() -> None:
    assert [piece.tolist() for piece in split_and_zero_pad([0, 1, 2, 3], 3)] == [[0, 1, 2], [3, 0, 0]]
    batches = [{"a": BatchedNdArray([0, 1])}, {"a": BatchedNdArray([2, 3, 4])}]
    assert [piece["a"].tolist() for piece in split_and_zero_pad(batches, 4)] == [[0, 1, 2, 3], [4, 0, 0, 0]]
    with pytest.raises(ValueError, match="two axes"):
        unpad_data_if_necessary([1], np.zeros((1, 1, 1)))


def test_missing_values_are_made_from_their_keys() -> None:
    made = LambdaDefaultDict(str.upper, {"a": "given"})
    assert (made["a"], made["b"], dict(made)) == ("given", "B", {"a": "given", "b": "B"})
    assert pickle.loads(pickle.dumps(made))["c"] == "C"
    with pytest.raises(TypeError, match="function of the key"):
        LambdaDefaultDict("x")  # type: ignore[arg-type]


def test_a_space_of_lists() -> None:
    from gymnasium import spaces

    space = Repeated(spaces.Discrete(3), 4)
    space.seed(1)
    drawn = [space.sample() for _ in range(50)]
    assert all(map(space.contains, drawn)) and {len(each) for each in drawn} == {1, 2, 3, 4}
    assert not space.contains([1] * 5) and not space.contains([7]) and space.contains([])
    assert space == Repeated(spaces.Discrete(3), 4) != Repeated(spaces.Discrete(3), 5)
