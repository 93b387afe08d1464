"""Sampling with all runners of a group at the same time."""

from __future__ import annotations

from typing import Any


def synchronous_parallel_sample(
    *,
    worker_set: Any,
    max_agent_steps: int | None = None,
    max_env_steps: int | None = None,
    concat: bool = True,
    sample_timeout_s: float | None = None,
    random_actions: bool = False,
    _uses_new_env_runners: bool = False,
    _return_metrics: bool = False,
) -> Any:
    """Sample with all runners at the same time, again and again until there are enough steps.

    Args:
        worker_set: The runners, as `algorithm.env_runner_group` has them.
        max_agent_steps: Stop after so many steps of agents.
        max_env_steps: Stop after so many steps of environments. Default: after one call of each runner.
        concat: True for one list of episodes, False for a list of each runner's.
        sample_timeout_s: Seconds to wait for remote runners; None for as long as they take.
        random_actions: True to act at random, without the module.
        _uses_new_env_runners: Of Ray's; without effect.
        _return_metrics: True to return the metrics of the runners as well.

    Returns:
        The episodes, or a pair of them and the metrics.

    Raises:
        ValueError: Both bounds are given.
        RuntimeError: No runner has returned anything.
    """
    if max_agent_steps is not None and max_env_steps is not None:
        raise ValueError("synchronous_parallel_sample() takes max_agent_steps or max_env_steps, not both")
    bound = max_agent_steps or max_env_steps or 1
    parts: list[Any] = []
    metrics: list[dict[str, Any]] = []
    steps = 0
    while steps < bound:
        sampled = worker_set.foreach_env_runner(
            lambda runner: (runner.sample(random_actions=random_actions), runner.get_metrics()),
            local_env_runner=worker_set.num_remote_env_runners() == 0,
            timeout_seconds=sample_timeout_s,
        )
        if not sampled:
            raise RuntimeError(f"no runner has returned samples within {sample_timeout_s} s")
        for episodes, logged in sampled:
            parts.append(episodes)
            metrics.append(logged)
            counted = [each.agent_steps() if max_agent_steps else each.env_steps() for each in episodes]
            steps += sum(counted)
    found = [episode for part in parts for episode in part] if concat else parts
    return (found, metrics) if _return_metrics else found
