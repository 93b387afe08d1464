"""GeneralAdvantageEstimation: advantages and value targets of the rows of episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skate.rllib.connectors.connector_v2 import ConnectorV2
from skate.rllib.connectors.sequences import padded_pieces
from skate.rllib.core.advantages import generalized_advantages, standardized
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.apis import ValueFunctionAPI
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.core.rl_module.rl_module import RLModule

# Rows per forward pass: enough to keep all cores busy, little enough for images.
_ROWS = 4096


class GeneralAdvantageEstimation(ConnectorV2):
    """Adds standardized advantages and value targets (Schulman et al. 2016, arXiv:1506.02438).

    It needs the whole batch as tensors, so it comes last, and the rows of `AddOneTsToEpisodesAndTruncate`.

    Args:
        input_observation_space: The space of observations.
        input_action_space: The space of actions.
        gamma: Discount per step.
        lambda_: 0 takes one step of rewards into account, 1 all of them.
        settings_of: Returns gamma, lambda and True for a module with a critic, by the module's id. Default: the two
            numbers above, with a critic.
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        gamma: float,
        lambda_: float,
        settings_of: Callable[[str], tuple[float, float, bool]] | None = None,
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.gamma = gamma
        self.lambda_ = lambda_
        self.settings_of = settings_of
        #: Of Ray's, for subclasses that write the whole call anew and keep their NumpyToTensor here.
        self._numpy_to_tensor_connector: Any = None

    def __call__(
        self, *, rl_module: MultiRLModule, batch: dict[str, Any], episodes: list[Any], **kwargs: Any
    ) -> Any:
        singles = list(self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False))
        for module_id, columns in batch.items():
            module = rl_module[module_id].unwrapped()
            if not isinstance(rl_module[module_id].unwrapped(), ValueFunctionAPI):
                continue
            if Columns.LOSS_MASK not in columns:
                raise ValueError(
                    f"the batch of {module_id!r} has no {Columns.LOSS_MASK!r} column; put AddOneTsToEpisodesAndTruncate() "
                    "first in the pipeline"
                )
            lengths = [len(each) for each in singles if each.module_id in (None, module_id) and len(each)]
            self._add(module_id, module, columns, lengths)
        return batch

    def _add(self, module_id: str, module: RLModule, columns: dict[str, Any], lengths: list[int]) -> None:
        gamma, lambda_, critic = (
            (self.gamma, self.lambda_, True) if self.settings_of is None else self.settings_of(module_id)
        )
        piece = int(module.model_config.get("max_seq_len", 20)) if module.is_stateful() else None
        estimated = values_of(module, columns) if critic else torch.zeros_like(columns[Columns.REWARDS])
        values = by_episode(estimated, lengths, piece).astype(np.float32)
        real = by_episode(columns[Columns.LOSS_MASK], lengths, piece)
        advantages = generalized_advantages(
            rewards=by_episode(columns[Columns.REWARDS], lengths, piece),
            values=values,
            next_values=np.vstack([values[1:], np.zeros_like(values[:1])]),
            terminateds=by_episode(columns[Columns.TERMINATEDS], lengths, piece),
            truncateds=by_episode(columns[Columns.TRUNCATEDS], lengths, piece),
            valid=real,
            gamma=gamma,
            lambda_=lambda_,
        )
        targets = advantages + values
        advantages[real] = standardized(advantages[real])
        for name, table in ((Columns.ADVANTAGES, advantages), (Columns.VALUE_TARGETS, targets)):
            rows = [table[:length, place] for place, length in enumerate(lengths)]
            if piece is not None:
                rows = [np.stack(padded_pieces(each, piece)) for each in rows]
            columns[name] = torch.as_tensor(np.concatenate(rows), device=estimated.device)


def values_of(module: RLModule, columns: dict[str, Any]) -> torch.Tensor:
    """Return the values of all rows, without gradients."""
    critic: Any = module
    rows = columns[Columns.OBS]
    parts: list[torch.Tensor] = []
    with torch.no_grad():
        if module.is_stateful() or not torch.is_tensor(rows) or len(rows) <= _ROWS:
            parts.append(critic.compute_values(columns))
        else:
            tensors = {name: column for name, column in columns.items() if torch.is_tensor(column)}
            for start in range(0, len(rows), _ROWS):
                chosen = {name: column[start : start + _ROWS] for name, column in tensors.items()}
                parts.append(critic.compute_values(chosen))
    return torch.cat(parts)


def by_episode(column: torch.Tensor, lengths: list[int], piece: int | None) -> np.ndarray:
    """Return a column as a table with one episode in each of its columns; zeros where an episode has no step.

    Args:
        column: Rows of all episodes, one after another; with memory, padded sequences.
        lengths: Steps of the episodes.
        piece: Steps of a sequence; None for rows.
    """
    rows = column.detach().cpu().numpy()
    if piece is not None:
        rows = rows.reshape(-1)
    table = np.zeros((max(lengths), len(lengths)), rows.dtype)
    start = 0
    for place, length in enumerate(lengths):
        table[:length, place] = rows[start : start + length]
        start += length if piece is None else -(-length // piece) * piece
    return table
