"""The options of a training from the command line."""

from __future__ import annotations

import argparse
from typing import Any

#: Name, type (None for a flag), default and meaning.
_OPTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("algo", str, "PPO", "the algorithm, by its name"),
    ("framework", str, "torch", "only torch is available"),
    ("env", str, None, "the environment, if the script has none"),
    ("num-env-runners", int, None, "processes that sample; 0 samples in this one"),
    ("num-envs-per-env-runner", int, None, "environments that a runner steps together"),
    ("num-agents", int, 0, "agents of an environment that the script copies for each; 0 for one without agents"),
    ("evaluation-num-env-runners", int, 0, "processes that evaluate"),
    ("evaluation-interval", int, 0, "iterations between evaluations; 0 for none"),
    ("evaluation-duration", str, "10", "episodes or steps of an evaluation, or auto"),
    ("evaluation-duration-unit", str, "episodes", "episodes or timesteps"),
    ("evaluation-parallel-to-training", None, False, "evaluate while training continues"),
    ("output", str, None, "a folder for samples"),
    ("log-level", str, None, "INFO, DEBUG, WARN or ERROR"),
    ("no-tune", None, False, "train in a loop here, without a search"),
    ("num-samples", int, 1, "trials of the search"),
    ("max-concurrent-trials", int, None, "trials at a time"),
    ("verbose", int, 2, "how much the search prints"),
    ("checkpoint-freq", int, 0, "iterations between checkpoints; 0 for none"),
    ("checkpoint-at-end", None, False, "save a checkpoint at the end"),
    ("tune-max-report-freq", int, 5, "seconds between tables of the search"),
    ("wandb-key", str, None, "the key of Weights & Biases, to log there"),
    ("wandb-project", str, None, "the project there"),
    ("wandb-run-name", str, None, "the name of the run there"),
    ("as-test", None, False, "fail if the return of --stop-reward is not reached"),
    ("as-release-test", None, False, "the same, and write a summary to the file that TEST_OUTPUT_JSON names"),
    ("num-learners", int, None, "processes that learn; 0 learns in this one"),
    ("num-cpus-per-learner", float, None, "CPUs of each"),
    ("num-gpus-per-learner", float, None, "GPUs of each; default one, if there are enough"),
    ("num-aggregator-actors-per-learner", int, None, "processes that make batches for each learner"),
    ("num-cpus", int, 0, "CPUs of the session; 0 for those of the machine"),
    ("num-gpus", int, None, "refused: --num-gpus-per-learner has taken its place"),
    ("old-api-stack", None, False, "accepted; there is one stack"),
    ("enable-new-api-stack", None, False, argparse.SUPPRESS),
    ("local-mode", None, False, argparse.SUPPRESS),
)  # fmt: skip
_CHOICES = {
    "framework": ("tf", "tf2", "torch"),
    "evaluation-duration-unit": ("episodes", "timesteps"),
    "log-level": ("INFO", "DEBUG", "WARN", "ERROR"),
}


def add_rllib_example_script_args(
    parser: argparse.ArgumentParser | None = None,
    default_reward: float = 100.0,
    default_iters: int = 200,
    default_timesteps: int = 100_000,
) -> argparse.ArgumentParser:
    """Add the options of a training to a parser.

    Args:
        parser: The parser; a new one if None.
        default_reward: Default of ``--stop-reward``.
        default_iters: Default of ``--stop-iters``.
        default_timesteps: Default of ``--stop-timesteps``.

    Returns:
        The parser.
    """
    parser = argparse.ArgumentParser() if parser is None else parser
    stops = (
        ("stop-reward", float, default_reward, "the mean return at which training ends"),
        ("stop-iters", int, default_iters, "the iteration after which it ends"),
        ("stop-timesteps", int, default_timesteps, "the steps after which it ends"),
    )
    for name, kind, default, meaning in (*_OPTIONS, *stops):
        if kind is None:
            parser.add_argument(f"--{name}", action="store_true", help=meaning)
            continue
        kind = duration if name == "evaluation-duration" else kind
        parser.add_argument(f"--{name}", type=kind, default=default, choices=_CHOICES.get(name), help=meaning)
    return parser


def duration(value: str) -> int | str:
    """Return the number that a text stands for, or ``"auto"``."""
    return value if value == "auto" else int(value)
