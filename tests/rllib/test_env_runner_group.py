"""The group of runners: local and remote, equal bits with and without kills, errors, time-outs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
from rllib.test_env_runner import digest
from rllib.tiny_module import Counting, config

import skate
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.connectors.env_to_module import MeanStdFilter
from skate.rllib.env.env_runner_group import EnvRunnerGroup
from skate.rllib.utils.filter import RunningStat


class Troubled(Counting):
    """Kills its process, raises or hangs at one step, once or always."""

    def step(self, action: int) -> Any:
        settings = self.settings
        if self.total == settings["at"] and settings["runner"] in (settings["index"], 0):
            marker = Path(settings["folder"], "happened")
            if settings["always"] or not marker.exists():
                marker.touch()
                if settings["how"] == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if settings["how"] == "hang":
                    time.sleep(600)  # the hang under test
                raise ZeroDivisionError("this environment is broken")
        return super().step(action)

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.settings = {**context, "index": context.worker_index}


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    skate.init(num_cpus=4, preload=["torch"])
    yield
    skate.shutdown()


def group(folder: Path | None = None, **settings: Any) -> EnvRunnerGroup:
    trouble = {"folder": str(folder), "how": None, "always": False, "at": 12 if folder else -1, "runner": 2}
    trouble |= {key: settings.pop(key) for key in list(settings) if key in trouble}
    made = config(Troubled, num_env_runners=2, num_envs_per_env_runner=2, env_config=trouble, **settings)
    return EnvRunnerGroup(made, local_env_runner=False)


def digests(of: EnvRunnerGroup, rounds: int = 3) -> list[str]:
    return [digest(rollout) for _ in range(rounds) for rollout in of.sample_rollouts(40)[0]]


def test_the_local_runner_alone() -> None:
    alone = EnvRunnerGroup(config())
    rollouts, metrics = alone.sample_rollouts(70)
    assert [rollout.valid.shape for rollout in rollouts] == [(18, 4)] and len(metrics) == 1
    alone.sync_weights()
    assert alone.foreach_env_runner(lambda runner: runner._weights_seq_no) == [1]
    assert alone.local_env_runner.get_state()["weights_seq_no"] == 1
    assert alone.healthy_env_runner_ids() == [] and alone.get_spaces()["default_policy"][1].n == 2
    alone.stop()


def test_a_kill_changes_no_bit(session: None, tmp_path: Path) -> None:
    quiet = group()
    expected = digests(quiet)
    assert len(set(expected)) == 6 and quiet.num_restarts == 0
    quiet.stop()
    troubled = group(tmp_path, how="kill")
    assert digests(troubled) == expected
    assert troubled.num_restarts == 1 and troubled.healthy_env_runner_ids() == [1, 2]
    troubled.stop()


def test_an_exception_is_logged_and_the_round_is_whole(
    session: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    troubled = group(tmp_path, how="raise")
    began = time.monotonic()
    rollouts, metrics = troubled.sample_rollouts(80)
    assert sum(rollout.num_steps for rollout in rollouts) == 80 and len(metrics) == 2
    assert time.monotonic() - began < 30, "the first restart is made at once, not after a minute"
    assert "this environment is broken" in caplog.text and troubled.num_restarts == 1
    troubled.stop()


def test_an_environment_that_always_raises_raises_its_own_exception(session: None, tmp_path: Path) -> None:
    for settings in ({}, {"restart_failed_env_runners": False}):
        troubled = group(tmp_path, how="raise", always=True, runner=0, **settings)
        with pytest.raises(ZeroDivisionError, match="this environment is broken"):
            troubled.sample_rollouts(80)
        assert bool(troubled.num_restarts) == (not settings)
        troubled.stop()


@pytest.mark.long
def test_a_hung_runner_is_replaced(session: None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    troubled = group(tmp_path, how="hang", sample_timeout_s=5.0)
    rollouts, _ = troubled.sample_rollouts(80)
    assert sum(rollout.num_steps for rollout in rollouts) == 80
    assert "sample_timeout_s=5.0" in caplog.text
    troubled.stop()


def broken(context: Any) -> Any:
    raise LookupError("the simulator is not installed")


def test_an_environment_that_cannot_be_made_raises_its_own_exception(session: None) -> None:
    with pytest.raises(LookupError, match="simulator is not installed"):
        EnvRunnerGroup(config(broken, num_env_runners=1))


def test_weights_and_functions_reach_all_runners(session: None) -> None:
    made = config(num_env_runners=2)
    both = EnvRunnerGroup(made)
    assert both.local_env_runner.env is None
    state = {key: value + 1 for key, value in both.local_env_runner.module.get_state().items()}
    both.sync_weights(state, 5)
    rollouts, metrics = both.sample_rollouts(16)
    assert [rollout.weights_seq_no for rollout in rollouts] == [5, 5]

    def look(runner: Any) -> Any:
        return runner.worker_index, float(runner.module.layer.bias.detach()[0])

    found = both.foreach_env_runner(look)
    assert [index for index, _ in found] == [0, 1, 2] and len({bias for _, bias in found}) == 1
    assert both.foreach_env_runner("ping", local_env_runner=False) == ["pong", "pong"]
    both.stop()


def of_two(**settings: Any) -> EnvRunnerGroup:
    """A group of two runners that normalize observations."""
    made = config(Counting, num_env_runners=2, num_envs_per_env_runner=2, **settings)
    made._env_to_module_connector = lambda env, spaces, device: MeanStdFilter()
    return EnvRunnerGroup(made)


def seen(state: Any) -> tuple[int, int]:
    """Return how many observations the filter of a runner's state has, and how many since the last merge."""
    found = state["env_to_module_connector"]["MeanStdFilter"][None]["running_stats"][0]
    return RunningStat.from_state(found).n, RunningStat.from_state(found).num_pushes_delta


def test_calls_that_do_not_wait(session: None) -> None:
    both = of_two()
    assert both.foreach_env_runner_async(lambda runner: runner.worker_index) == 2
    assert both.foreach_env_runner_async("ping") == 0, "each has an open call already"
    assert both.foreach_env_runner_async("ping", "pings", remote_worker_ids=[2]) == 1
    assert (both.num_in_flight_async_reqs(), both.num_in_flight_async_reqs("pings")) == (3, 1)
    assert both.fetch_ready_async_reqs(tags=["pings"], timeout_seconds=None) == [(2, "pong")]
    assert sorted(both.fetch_ready_async_reqs(timeout_seconds=None)) == [(1, 1), (2, 2)]
    assert both.fetch_ready_async_reqs(timeout_seconds=None) == []
    kwargs = [{"num_timesteps": 4}, {"num_timesteps": 6}]
    assert both.foreach_env_runner_async_fetch_ready("sample", kwargs, tag="sample") == []
    found = both.foreach_env_runner_async_fetch_ready(
        "ping", tag="sample", timeout_seconds=None, return_actor_ids=True
    )
    assert {index: sum(map(len, episodes)) for index, episodes in found} == {1: 4, 2: 6}
    # A call whose runner dies has no result; the runner is made anew.
    both.foreach_env_runner_async(lambda runner: os.kill(os.getpid(), signal.SIGKILL), remote_worker_ids=[1])
    assert both.fetch_ready_async_reqs(timeout_seconds=None) == [(1, "pong"), (2, "pong")]
    assert both.healthy_env_runner_ids() == [1, 2] and both.num_remote_worker_restarts() == 1
    assert both.probe_unhealthy_env_runners() == []
    refs = both.foreach_env_runner("ping", local_env_runner=False, return_obj_refs=True)
    assert skate.get(refs) == ["pong", "pong"]
    with pytest.raises(ValueError, match="local_env_runner=False"):
        both.foreach_env_runner("ping", return_obj_refs=True)
    both.stop()


def test_the_statistics_of_filters_are_merged(session: None) -> None:
    for settings in ({}, {"create_local_env_runner": False}):
        both = of_two(**settings)
        for _ in range(2):
            both.sample_rollouts(20)
            states = both.foreach_env_runner("get_state", local_env_runner=False)
            assert all(0 < seen(state)[1] <= seen(state)[0] for state in states)
            both.sync_env_runner_states()
            counts = {seen(state) for state in both.foreach_env_runner("get_state")}
            assert len(counts) == 1 and next(iter(counts))[1] == 0
        # A runner that is made anew begins with the merged statistics.
        before = counts
        both.foreach_env_runner(
            lambda runner: os.kill(os.getpid(), signal.SIGKILL), remote_worker_ids=[2], local_env_runner=False
        )
        assert both.num_restarts == 1
        assert {seen(state) for state in both.foreach_env_runner("get_state")} == before
        both.stop()


def test_statistics_are_not_merged_or_not_sent_if_the_config_says_so(session: None) -> None:
    both = of_two(merge_env_runner_states=False)
    both.sample_rollouts(20)
    both.sync_env_runner_states()
    assert [seen(state)[0] for state in both.foreach_env_runner("get_state")] == [0, 0, 0]
    both.sample_rollouts(20)
    alone = SimpleNamespace(merge_env_runner_states="training_only", broadcast_env_runner_states=False)
    both.sync_env_runner_states(config=alone)
    local, *remote = (seen(state)[0] for state in both.foreach_env_runner("get_state"))
    assert local == sum(remote) > 0
    both.stop()


def test_a_function_that_samples_runs_again_on_a_new_runner(session: None, tmp_path: Path) -> None:
    def sample(runner: Any) -> int:
        runner.sample(num_timesteps=60)
        return int(runner.worker_index)

    runners = group(tmp_path, how="raise")
    assert runners.sample_on_each(sample) == [1, 2]
    assert runners.num_remote_worker_restarts() == 1
    runners.stop()
    runners = group(
        tmp_path,
        how="raise",
        always=True,
        restart_failed_env_runners=False,
        ignore_env_runner_failures=True,
    )
    assert runners.sample_on_each(sample) == [1] and runners.healthy_env_runner_ids() == [1]
    runners.stop()


def test_evaluations_without_a_runner_are_counted(session: None) -> None:
    algorithm = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=32, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .evaluation(
            evaluation_num_env_runners=1,
            evaluation_duration=1,
            evaluation_error_after_n_consecutive_skips=2,
            evaluation_unhealthy_workers_timeout_s=0.1,
        )
        .fault_tolerance(restart_failed_env_runners=False)
        .build_algo()
    )
    assert algorithm.evaluate()["env_runners"]["num_episodes"] == 1
    group = algorithm.eval_env_runner_group
    group.foreach_env_runner(lambda runner: os.kill(os.getpid(), signal.SIGKILL), local_env_runner=False)
    assert group.healthy_env_runner_ids() == [] and algorithm.restore_env_runners(group) == []
    algorithm.evaluate()
    with pytest.raises(RuntimeError, match="in 2 evaluations in a row"):
        algorithm.evaluate()
    algorithm.stop()
