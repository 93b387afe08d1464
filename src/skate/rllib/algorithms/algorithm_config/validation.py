"""Checks of a whole configuration, made before an algorithm is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skate.rllib.algorithms.algorithm_config.sizes import BatchSizes

#: Fields of the old API stack or of parts that are not available: the value they must have, and the way instead.
_MUST_BE: dict[str, tuple[Any, str]] = {
    "observation_filter": (
        "NoFilter", "normalize observations with env_runners(env_to_module_connector=lambda *_: MeanStdFilter())"
    ),
    "exploration_config": ({}, "set env_runners(explore=...), or write forward_exploration of an own RLModule"),
    "sample_collector": (None, "samples are columns; a connector changes them"),
    "remote_worker_envs": (False, "set env_runners(gym_env_vectorize_mode='async')"),
    "observation_fn": (None, "a connector changes observations"),
    "num_gpus": (0, "set learners(num_gpus_per_learner=...)"),
    "off_policy_estimation_methods": ({}, "off-policy estimation is not available"),
    "input_": ("sampler", "learning from files is not available"),
    "output": (None, "recording to files is not available"),
    "offline_evaluation_interval": (None, "offline evaluation is not available"),
    "num_aggregator_actors_per_learner": (0, "batches are prepared by the learner itself"),
    "_use_msgpack_checkpoints": (False, "checkpoints are pickled"),
    "framework_str": ("torch", "modules and learners are torch's"),
}  # fmt: skip


def complaints(config: BatchSizes) -> Iterator[str]:
    """Yield what is wrong with the fields that all algorithms have."""
    for rule in _RULES:
        yield from rule(config)


def check(found: list[str]) -> None:
    """Raise one error about all complaints.

    Raises:
        ValueError: there are complaints.
    """
    if found:
        hint = "To suppress all validation errors, set `config.experimental(_validate_config=False)` at your own risk."
        raise ValueError("\n".join([*found, hint]))


def _unavailable(config: BatchSizes) -> Iterator[str]:
    for name, (value, instead) in _MUST_BE.items():
        given = getattr(config, name)
        if given != value:
            yield f"`{name}` must be {value!r}, got {given!r}: {instead}"


def _counts(config: BatchSizes) -> Iterator[str]:
    lowest = {
        "num_env_runners": 0, "num_envs_per_env_runner": 1, "num_learners": 0, "evaluation_num_env_runners": 0,
        "num_epochs": 1, "train_batch_size": 1, "metrics_num_episodes_for_smoothing": 1,
    }  # fmt: skip
    for name, least in lowest.items():
        value = getattr(config, name)
        if not isinstance(value, int) or value < least:
            yield f"`{name}` ({value!r}) must be an int of {least} or more"
    size = config.minibatch_size
    if size is not None and (not isinstance(size, int) or size < 1):
        yield f"`minibatch_size` ({size!r}) must be an int of 1 or more, or None"
    fragment = config.rollout_fragment_length
    if fragment != "auto" and (not isinstance(fragment, int) or fragment < 1):
        yield f"`rollout_fragment_length` ({fragment!r}) must be an int of 1 or more, or 'auto'"
    if not isinstance(config.gamma, int | float) or not 0 <= config.gamma <= 1:
        yield f"`gamma` ({config.gamma!r}) must be a number between 0 and 1"
    if (
        config.num_learners > 0
        and config.num_gpus_per_learner not in (0, 1)
        and config.num_gpus_per_learner > 1
    ):
        yield f"`num_gpus_per_learner` ({config.num_gpus_per_learner}) must be at most 1"


def _evaluation(config: BatchSizes) -> Iterator[str]:
    if config.evaluation_interval is None:
        if config.evaluation_duration == "auto" and not config.evaluation_parallel_to_training:
            yield "`evaluation_duration=auto` not supported for `evaluation_parallel_to_training=False`!"
        return
    duration, interval = config.evaluation_duration, config.evaluation_interval
    if not isinstance(interval, int) or interval < 0:
        yield f"`evaluation_interval` ({interval!r}) must be an int of 1 or more, or None"
    if config.evaluation_duration_unit not in ("episodes", "timesteps"):
        yield f"`evaluation_duration_unit` ({config.evaluation_duration_unit!r}) must be episodes or timesteps"
    if duration == "auto":
        if not config.evaluation_parallel_to_training:
            yield "`evaluation_duration=auto` not supported for `evaluation_parallel_to_training=False`!"
    elif not isinstance(duration, int) or duration <= 0:
        yield f"`evaluation_duration` ({duration}) must be an int and >0!"
    if config.evaluation_parallel_to_training and not config.evaluation_num_env_runners:
        yield (
            "`evaluation_parallel_to_training` can only be done if `evaluation_num_env_runners` > 0! Try setting "
            "`config.evaluation_parallel_to_training` to False."
        )


def _schedules(config: BatchSizes) -> Iterator[str]:
    yield from schedule_errors("lr", config.lr)
    if isinstance(config.lr, int | float) and config.lr < 0:
        yield f"`lr` ({config.lr!r}) must be >= 0"


def schedule_errors(name: str, value: Any) -> Iterator[str]:
    """Yield a complaint unless a value is None, a number, or a schedule [[timestep, value], ...] from 0 on."""
    if value is None or isinstance(value, int | float):
        return
    pairs = isinstance(value, list | tuple) and all(
        isinstance(e, list | tuple) and len(e) == 2 for e in value
    )
    times = [pair[0] for pair in value] if pairs else []
    if len(times) < 2 or times[0] != 0 or sorted(times) != times:
        meaning = {"lr": "learning rate"}.get(name, name)
        yield (
            f"Invalid `{name}` ({value!r}) specified! Must be a list of 2 or more tuples, each of the form (`timestep`, "
            f"`{meaning} to reach`), the first at timestep 0, for example "
            "`[(0, 0.001), (1e6, 0.0001), (2e6, 0.00005)]`."
        )


def _modules(config: BatchSizes) -> Iterator[str]:
    if not config.policies:
        yield "`policies` must name at least one module"
    for module in config.algorithm_config_overrides_per_module:
        if module not in config.policies:
            known = ", ".join(map(repr, config.policies))
            yield f"`algorithm_config_overrides_per_module` has {module!r}, but the modules are: {known}"


_RULES: list[Callable[[BatchSizes], Iterator[str]]] = [
    _unavailable, _counts, _evaluation, _schedules, _modules,
]  # fmt: skip
