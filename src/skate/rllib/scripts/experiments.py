"""A training with the options of the command line, as a search or in a loop."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any

import skate
from skate import tune
from skate.rllib.scripts.options import add_rllib_example_script_args
from skate.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    EPISODE_RETURN_MEAN,
    EVALUATION_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)
from skate.rllib.utils.serialization import convert_numpy_to_python_primitives

_RETURN = f"{ENV_RUNNER_RESULTS}/{EPISODE_RETURN_MEAN}"


def should_stop(stop: dict[str, Any], results: dict[str, Any], keep_ray_up: bool = False) -> bool:
    """Return True if a result has reached one of several bounds.

    Args:
        stop: Bounds by the keys of a figure, with ``/`` between them.
        results: What ``train()`` returned; a figure that it does not have reaches nothing.
        keep_ray_up: False to end the session when a bound is reached.
    """
    for key, bound in stop.items():
        value: Any = results
        for part in key.split("/"):
            value = value.get(part.strip()) if isinstance(value, dict) else None
        if isinstance(value, int | float) and not math.isnan(value) and value >= bound:
            print(f"{key} has reached {bound}")
            if not keep_ray_up:
                skate.shutdown()
            return True
    return False


def run_rllib_example_script_experiment(
    base_config: Any,
    args: argparse.Namespace | None = None,
    *,
    stop: dict[str, Any] | None = None,
    success_metric: dict[str, float] | None = None,
    trainable: Any = None,
    tune_callbacks: list[Any] | None = None,
    keep_config: bool = False,
    keep_ray_up: bool = False,
    scheduler: Any = None,
    progress_reporter: Any = None,
) -> Any:
    """Train until one of several bounds is reached.

    Args:
        base_config: The configuration; the options change it.
        args: What the parser of `add_rllib_example_script_args` returned; that of the command line if None.
        stop: Bounds by the keys of a figure, with ``/`` between them. Default: the three of the options.
        success_metric: The one figure, and its bound, that ``--as-test`` asks for. Default: the mean return.
        trainable: What the search runs. Default: the configuration's algorithm.
        tune_callbacks: Callbacks of the search.
        keep_config: Leave the configuration as it is.
        keep_ray_up: Leave the session open.
        scheduler: The scheduler of the search.
        progress_reporter: Prints tables of the search.

    Returns:
        What ``Tuner.fit()`` returned, or the last result with ``--no-tune``.

    Raises:
        ValueError: an option is not available, there are too few GPUs, or ``--as-test`` asks for more than was reached.
    """
    args = add_rllib_example_script_args().parse_args() if args is None else args
    _check_options(args)
    skate.init(num_cpus=args.num_cpus or None, ignore_reinit_error=True)
    stop = _bounds(args) if stop is None else stop
    if not keep_config:
        apply_options(base_config, args)
    if args.no_tune:
        return _train_here(base_config, args, stop, keep_ray_up)
    started = time.monotonic()
    results = _tuner(
        base_config,
        args,
        trainable or base_config.algo_class,
        {
            "stop": stop,
            "callbacks": [*(tune_callbacks or []), *_wandb(base_config, args)],
            "progress_reporter": progress_reporter or _reporter(base_config, args),
        },
        scheduler,
    ).fit()
    seconds = time.monotonic() - started
    if not keep_ray_up:
        skate.shutdown()
    if args.as_test:
        _check_success(results, success_metric or _success(stop, args), args, seconds)
    return results


def _bounds(args: argparse.Namespace) -> dict[str, Any]:
    return {
        _RETURN: args.stop_reward,
        f"{ENV_RUNNER_RESULTS}/{NUM_ENV_STEPS_SAMPLED_LIFETIME}": args.stop_timesteps,
        "training_iteration": args.stop_iters,
    }


def _tuner(
    config: Any, args: argparse.Namespace, trainable: Any, run: dict[str, Any], scheduler: Any
) -> tune.Tuner:
    return tune.Tuner(
        trainable,
        param_space=config,
        run_config=tune.RunConfig(
            failure_config=tune.FailureConfig(max_failures=0, fail_fast="raise"),
            verbose=args.verbose,
            checkpoint_config=tune.CheckpointConfig(
                checkpoint_frequency=args.checkpoint_freq, checkpoint_at_end=args.checkpoint_at_end
            ),
            **run,
        ),
        tune_config=tune.TuneConfig(
            num_samples=args.num_samples,
            max_concurrent_trials=args.max_concurrent_trials,
            scheduler=scheduler,
        ),
    )


def _check_options(args: argparse.Namespace) -> None:
    if args.enable_new_api_stack:
        raise ValueError("--enable-new-api-stack is no option any more: there is one stack; leave it out")
    if args.local_mode:
        raise ValueError(
            "--local-mode is no option any more; use --num-env-runners=0 to debug in one process"
        )
    if args.num_gpus:
        raise ValueError(
            "--num-gpus is not available; use --num-gpus-per-learner=1 and --num-learners with the number of GPUs"
        )
    if args.as_release_test:
        args.as_test = True
    if args.as_test and args.no_tune:
        raise ValueError("--as-test needs a search; leave out --no-tune")
    if args.as_test:
        args.verbose, args.tune_max_report_freq = 1, 30


def apply_options(config: Any, args: argparse.Namespace) -> None:
    """Change a configuration as the options want.

    Args:
        config: The configuration.
        args: What the parser of `add_rllib_example_script_args` returned.

    Raises:
        ValueError: there are fewer GPUs than are asked for.
    """
    config.framework(args.framework)
    if args.env is not None and config.env is None:
        config.environment(args.env)
    groups = {
        config.env_runners: ("num_env_runners", "num_envs_per_env_runner"),
        config.learners: ("num_learners", "num_cpus_per_learner", "num_aggregator_actors_per_learner"),
        config.debugging: ("log_level",),
        config.offline_data: ("output",),
    }
    for method, names in groups.items():
        given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
        if given:
            method(**given)
    learners = int(config.num_learners or 0) or 1
    there = skate.cluster_resources().get("GPU", 0)
    wanted = args.num_gpus_per_learner
    if wanted is not None and there < wanted * learners:
        raise ValueError(
            f"--num-gpus-per-learner={wanted} with {learners} learner(s) needs {wanted * learners} GPUs, and the cluster "
            f"has {there}"
        )
    config.learners(num_gpus_per_learner=int(there >= learners) if wanted is None else wanted)
    if args.evaluation_interval > 0:
        config.evaluation(
            evaluation_num_env_runners=args.evaluation_num_env_runners,
            evaluation_interval=args.evaluation_interval,
            evaluation_duration=args.evaluation_duration,
            evaluation_duration_unit=args.evaluation_duration_unit,
            evaluation_parallel_to_training=args.evaluation_parallel_to_training,
        )


def _train_here(config: Any, args: argparse.Namespace, stop: dict[str, Any], keep_ray_up: bool) -> Any:
    algorithm = config.build_algo()
    results: dict[str, Any] = {}
    try:
        for iteration in range(int(stop.get("training_iteration", args.stop_iters))):
            results = algorithm.train()
            evaluated = results.get(EVALUATION_RESULTS, {})
            for words, part in (("mean return", results), ("in evaluation", evaluated)):
                value = part.get(ENV_RUNNER_RESULTS, {}).get(EPISODE_RETURN_MEAN)
                if value is not None:
                    print(f"iteration {iteration + 1}: {words} {value:.2f}")
            if should_stop(stop, results, keep_ray_up=True):
                break
    finally:
        algorithm.stop()
        if not keep_ray_up:
            skate.shutdown()
    return results


def _wandb(config: Any, args: argparse.Namespace) -> list[Any]:
    # Imported here because most experiments do not log there.
    from skate.air.integrations.wandb import WandbLoggerCallback

    key = getattr(args, "wandb_key", None) or os.environ.get("WANDB_API_KEY")
    if not key:
        return []
    default = "-".join((args.algo.lower(), re.sub(r"\W+", "-", str(config.env).lower())))
    named = {"name": args.wandb_run_name} if args.wandb_run_name else {}
    return [
        WandbLoggerCallback(
            api_key=key, project=args.wandb_project or default, upload_checkpoints=True, **named
        )
    ]


def _reporter(config: Any, args: argparse.Namespace) -> Any:
    columns = {
        "training_iteration": "iter",
        "time_total_s": "total time (s)",
        NUM_ENV_STEPS_SAMPLED_LIFETIME: "ts",
        _RETURN: "combined return" if args.num_agents else "episode return mean",
    }
    if args.num_agents:
        key = f"{ENV_RUNNER_RESULTS}/module_episode_returns_mean"
        columns |= {f"{key}/{module_id}": f"return {module_id}" for module_id in config.policies}
    return tune.CLIReporter(metric_columns=columns, max_report_frequency=args.tune_max_report_freq)


def _success(stop: dict[str, Any], args: argparse.Namespace) -> dict[str, float]:
    for key in (f"{EVALUATION_RESULTS}/{_RETURN}", _RETURN):
        if key in stop:
            return {key: stop[key]}
    return {_RETURN: args.stop_reward}


def _check_success(results: Any, success: dict[str, float], args: argparse.Namespace, seconds: float) -> None:
    (key, bound), *_ = success.items()
    rows = results.get_dataframe().to_dict("records")
    reached = [row[key] for row in rows if not math.isnan(row.get(key, math.nan))]
    passed = bool(reached) and max(reached) >= bound
    if args.as_release_test and (file := os.environ.get("TEST_OUTPUT_JSON")):
        last = {name: value for name, value in results[0].metrics.items() if name != "config"}
        summary = {
            "time_taken": seconds,
            "last_update": time.time(),
            "stats": convert_numpy_to_python_primitives(last),
            "passed": [passed],
        }
        Path(file).write_text(json.dumps(summary, default=str))
    if not passed:
        raise ValueError(f"{key} of {bound} was not reached: {reached or 'no trial has reported it'}")
    print(f"{key} of {bound} reached: {max(reached)}")
