"""A stage: an operation on the rows of a batch that adds columns to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: The column for the error of a failed row; empty in other rows.
ERROR = "__inference_error__"


class StageCall:
    """State of a stage's actor, called with batches whose rows are in one column.

    Subclasses define `outputs`; the columns it yields for a row are added to that row. Rows that failed earlier
    are left unchanged.
    """

    def __init__(self, data_column: str, expected_input_keys: Sequence[str] = ()) -> None:
        self.data_column = data_column
        self.expected_input_keys = list(expected_input_keys)

    def outputs(self, rows: list[dict[str, Any]]) -> Iterable[dict[str, Any]]:
        """Yield the columns to add to each row, in row order."""
        raise NotImplementedError

    def __call__(self, batch: Any) -> dict[str, Any]:
        rows: list[dict[str, Any]] = [plain(row) for row in batch[self.data_column].tolist()]
        well = [row for row in rows if not row.get(ERROR)]
        for row in well:
            missing = [name for name in self.expected_input_keys if row.get(name) is None]
            if missing:
                raise ValueError(
                    f"{type(self).__name__} requires the columns {', '.join(missing)}, but a row has "
                    f"{', '.join(row)}; add the missing ones in preprocess"
                )
        if well:
            for row, made in zip(well, self.outputs([dict(row) for row in well]), strict=True):
                row.update(made)
        return {self.data_column: rows}


def plain(value: Any) -> Any:
    """Replace arrays inside a value with lists, for engines and JSON."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist()) if value.dtype.kind == "O" else value.tolist()
    return value


class Stage:
    """A stage of a processor: its class, the constructor arguments, and how its batches run.

    `map_batches_kwargs` can be changed until the processor is applied to a dataset.
    """

    fn: type[StageCall] = StageCall

    def __init__(
        self,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        map_batches_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.fn_constructor_kwargs = fn_constructor_kwargs or {}
        self.map_batches_kwargs = {"concurrency": 1} if map_batches_kwargs is None else map_batches_kwargs

    def get_required_input_keys(self) -> dict[str, str]:
        """Return the columns that rows must have, each with its meaning."""
        return {}

    def get_optional_input_keys(self) -> dict[str, str]:
        """Return the columns that are used if present, each with its meaning."""
        return {}

    def get_dataset_map_batches_kwargs(self, batch_size: int, data_column: str) -> dict[str, Any]:
        """Return the arguments of map_batches; the stage's batch size takes precedence over the processor's."""
        constructor = {
            **self.fn_constructor_kwargs,
            "data_column": data_column,
            "expected_input_keys": list(self.get_required_input_keys()),
        }
        given = {**self.map_batches_kwargs, "fn_constructor_kwargs": constructor}
        if given.get("batch_size") is None:
            given["batch_size"] = batch_size
        return given

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.map_batches_kwargs})"
