"""Selection of the checkpoints to keep: a pure function of the existing ones and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skate.air.config import CheckpointConfig as OfTune
from skate.train.configs import CheckpointConfig


@dataclass
class KeptCheckpoint:
    """An existing checkpoint: its name, and the metrics that rank 0 reported with it."""

    name: str
    metrics: dict[str, Any]
    index: int = 0


def score(metrics: Mapping[str, Any], attribute: str) -> float | None:
    """Return the number by which a checkpoint is ranked; nested metrics such as "eval/loss"; None if missing or not a
    number.
    """
    found: Any = metrics.get(attribute)
    if found is None and "/" in attribute:
        found = metrics
        for part in attribute.split("/"):
            found = found.get(part) if isinstance(found, Mapping) else None
    try:
        number = float(found)
    except (TypeError, ValueError):
        return None
    return number if number == number else None


def best_first(checkpoints: Sequence[KeptCheckpoint], attribute: str, order: str) -> list[KeptCheckpoint]:
    """Sort checkpoints by score, best first; those without one come last, newer ones first among equals."""
    sign = -1.0 if order == "max" else 1.0

    def key(each: KeptCheckpoint) -> tuple[bool, float, int]:
        found = score(each.metrics, attribute)
        return (found is None, 0.0 if found is None else sign * found, -each.index)

    return sorted(checkpoints, key=key)


def to_delete(
    checkpoints: Sequence[KeptCheckpoint], config: CheckpointConfig | OfTune
) -> list[KeptCheckpoint]:
    """Select the checkpoints to delete, oldest first; the last one always stays, because a run resumes from it."""
    keep = config.num_to_keep
    if keep is None or len(checkpoints) <= keep:
        return []
    latest = max(checkpoints, key=lambda each: each.index)
    if config.checkpoint_score_attribute is None:
        ranked = sorted(checkpoints, key=lambda each: -each.index)
    else:
        ranked = best_first(checkpoints, config.checkpoint_score_attribute, config.checkpoint_score_order)
    staying = {id(each) for each in ranked[:keep]} | {id(latest)}
    return sorted((each for each in checkpoints if id(each) not in staying), key=lambda each: each.index)
