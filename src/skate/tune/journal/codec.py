"""Encoding of configurations and trials as JSON, and decoding."""

from __future__ import annotations

import base64
import json
import pickle
from typing import Any

from skate.air.flat import plain
from skate.train.storage.retention_policy import KeptCheckpoint
from skate.tune.configs import CheckpointConfig
from skate.tune.experiment.trial import Source, Trial
from skate.tune.metrics import History
from skate.tune.placement import PlacementGroupFactory

_PICKLED = "__pickled__"


def is_exact(value: Any) -> bool:
    """True if JSON returns a value unchanged."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is dict:
        return _PICKLED not in value and all(
            type(name) is str and is_exact(each) for name, each in value.items()
        )
    return kind is list and all(map(is_exact, value))


def packed(value: Any) -> Any:
    """Encode a value: unchanged if JSON preserves it, else pickled.

    Raises:
        TypeError: it cannot be pickled either; the message names the part that cannot.
    """
    if is_exact(value):
        return value
    return {_PICKLED: base64.b64encode(dumped(value)).decode()}


def dumped(value: Any, what: str = "the configuration") -> bytes:
    """Pickle a value, with functions of the user's program by value.

    Raises:
        TypeError: it cannot be pickled; the message names the part that cannot.
    """
    from skate import cloudpickle  # plain configurations do not need it

    try:
        found: bytes = cloudpickle.dumps(value)
        return found
    except Exception as error:  # an object's own pickling may raise anything
        where = _culprit(value)
        raise TypeError(
            f"{what} cannot be serialized: {where or type(value).__name__} ({type(error).__name__}: "
            f"{error}). Create it in the trainable, or pass it with tune.with_parameters if it can be pickled"
        ) from error


def _culprit(value: Any, at: str = "") -> str:
    from skate import cloudpickle  # imported only if used

    if isinstance(value, dict):
        for name, each in value.items():
            found = _culprit(each, f"{at}/{name}" if at else str(name))
            if found:
                return found
        return ""
    try:
        cloudpickle.dumps(value)
    except Exception:  # the value may raise anything when it is pickled
        return f"{at!r} is a {type(value).__name__}"
    return ""


def unpacked(value: Any) -> Any:
    """Reverse `packed`."""
    if isinstance(value, dict) and _PICKLED in value:
        return pickle.loads(base64.b64decode(value[_PICKLED]))
    return value


def new_trial_entry(trial: Trial) -> dict[str, Any]:
    """Return the journal entry of a new trial."""
    request = trial.placement_group_factory
    return {
        "name": trial.trainable_name,
        "config": packed(trial.config),
        "params": packed(trial.evaluated_params),
        "tag": trial.experiment_tag,
        "custom": trial.custom_trial_name,
        "dir": trial.relative_logdir,
        "bundles": [[{}] if request.head_bundle_is_empty else [], request.bundles, request.strategy],
        "stop": trial.stopping_criterion,
        "failures": trial.max_failures,
        "keep": [
            trial.checkpoint_config.num_to_keep,
            trial.checkpoint_config.checkpoint_score_attribute,
            trial.checkpoint_config.checkpoint_score_order,
            trial.checkpoint_config.checkpoint_frequency,
            trial.checkpoint_config.checkpoint_at_end,
        ],
    }


def trial_of(trial_id: str, entry: dict[str, Any]) -> Trial:
    """Create the trial of a journal entry.

    Raises:
        ValueError: pickled data of the entry cannot be read here.
    """
    head, bundles, strategy = entry["bundles"]
    try:
        config, params = unpacked(entry["config"]), unpacked(entry["params"])
    except Exception as error:  # a class of the program that wrote it may be missing
        config, params = {"unreadable": f"{type(error).__name__}: {error}"}, {}
    trial = Trial(
        entry["name"],
        config=config,
        trial_id=trial_id,
        evaluated_params=params,
        experiment_tag=entry["tag"],
        placement_group_factory=PlacementGroupFactory([*head, *bundles], strategy),
        stopping_criterion=entry["stop"],
        checkpoint_config=CheckpointConfig(*entry["keep"]),
        max_failures=entry["failures"],
    )
    trial.custom_trial_name = entry["custom"]
    trial.relative_logdir = entry["dir"]
    return trial


def trial_state(trial: Trial) -> dict[str, Any]:
    """Return the complete state of a trial for a snapshot."""
    source = trial.source
    return {
        **new_trial_entry(trial),
        "id": trial.trial_id,
        "status": trial.status,
        "last": {name: value for name, value in trial.last_result.items() if name != "config"},
        "histories": {name: each.state() for name, each in trial.histories.by_name.items()},
        "results": trial.results,
        "failed": trial.num_failures,
        "error": trial.error_text,
        "kept": [
            [each.name, each.index, {n: v for n, v in each.metrics.items() if n != "config"}]
            for each in trial.kept
        ],
        "next": trial.next_checkpoint,
        "source": None
        if source is None
        else [source.trial_id, source.name, source.iteration, source.time_total],
    }


def trial_of_state(state: dict[str, Any]) -> Trial:
    """Create the trial of a snapshot's entry."""
    trial = trial_of(state["id"], state)
    trial.status = state["status"]
    trial.last_result = with_config(state["last"], trial) if state["last"] else {}
    trial.histories.by_name = {name: History.of(each) for name, each in state["histories"].items()}
    trial.results = state["results"]
    trial.num_failures = state["failed"]
    trial.error_text = state["error"]
    trial.kept = [
        KeptCheckpoint(name, with_config(metrics, trial), index) for name, index, metrics in state["kept"]
    ]
    trial.next_checkpoint = state["next"]
    trial.source = None if state["source"] is None else Source(*state["source"])
    return trial


def with_config(result: dict[str, Any], trial: Trial) -> dict[str, Any]:
    """Decode a result."""
    return {**result, "trial_id": trial.trial_id, "config": trial.config}


def as_json(value: Any) -> bytes:
    """Encode as JSON; numbers of numpy and torch become Python's, other unsupported values become text."""
    return json.dumps(value, default=plain).encode()
