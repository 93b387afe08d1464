"""A processor: rows are preprocessed, pass through stages, and are postprocessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate.data.llm.configs import ProcessorConfig
from skate.data.llm.stage import ERROR, Stage

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

Row = dict[str, Any]
RowFunction = Callable[[Row], Row]


class Processor:
    """A function from dataset to dataset: `preprocess` for each row, the stages, `postprocess` for each row.

    The results of preprocess and of each stage are added to the row's columns, so postprocess receives all of
    them. Only its result is kept. Failed rows skip postprocess.
    """

    DATA_COLUMN = "__data"

    def __init__(
        self,
        config: ProcessorConfig,
        stages: Sequence[Stage],
        preprocess: RowFunction | None = None,
        postprocess: RowFunction | None = None,
        preprocess_map_kwargs: dict[str, Any] | None = None,
        postprocess_map_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.preprocess_map_kwargs = preprocess_map_kwargs or {}
        self.postprocess_map_kwargs = postprocess_map_kwargs or {}
        self.preprocess = _gathering(preprocess, self.DATA_COLUMN)
        reports_errors = bool(getattr(config, "should_continue_on_error", False))
        self.postprocess = _spreading(postprocess, self.DATA_COLUMN, reports_errors)
        self.stages: dict[str, Stage] = {}
        for stage in stages:
            kind = name = type(stage).__name__
            number = 1
            while name in self.stages:
                number += 1
                name = f"{kind}_{number}"
            self.stages[name] = stage

    def __call__(self, dataset: Dataset) -> Dataset:
        """Return the processed dataset. Nothing runs until a result is requested."""
        dataset = dataset.map(self.preprocess, **self.preprocess_map_kwargs)
        for stage in self.stages.values():
            given = stage.get_dataset_map_batches_kwargs(self.config.batch_size, self.DATA_COLUMN)
            dataset = dataset.map_batches(stage.fn, udf_modifying_row_count=False, **given)
        return dataset.map(self.postprocess, **self.postprocess_map_kwargs)

    def list_stage_names(self) -> list[str]:
        """The names of the stages, in order."""
        return list(self.stages)

    def get_stage_by_name(self, name: str) -> Stage:
        """Return a stage by name. Raises ValueError for an unknown name."""
        if name not in self.stages:
            raise ValueError(f"there is no stage {name}; the stages are {', '.join(self.stages)}")
        return self.stages[name]

    def log_input_column_names(self) -> None:
        """Log the columns that the first stage reads."""
        import logging  # only this method needs it

        name, stage = next(iter(self.stages.items()))
        lines = [f"The first stage of the processor is {name}."]
        for title, keys in (
            ("Required input columns:", stage.get_required_input_keys()),
            ("Optional input columns:", stage.get_optional_input_keys()),
        ):
            if keys:
                lines += [title, *(f"\t{key}: {what}" for key, what in keys.items())]
        logging.getLogger("skate.data.llm").info("\n".join(lines))


def _gathering(fn: RowFunction | None, column: str) -> RowFunction:
    def preprocess(row: Row) -> Row:
        return {column: {**row, **fn(row)} if fn is not None else row}

    return preprocess


def _spreading(fn: RowFunction | None, column: str, reports_errors: bool) -> RowFunction:
    def postprocess(row: Row) -> Row:
        data: Row = row[column]
        if data.get(ERROR):
            return data
        made = fn(data) if fn is not None else data
        return {**made, ERROR: ""} if reports_errors else made

    return postprocess
