"""Chains of preprocessors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data.preprocessor import Preprocessor

if TYPE_CHECKING:
    from skate.data.dataset import Dataset


class Chain(Preprocessor):
    """A chain of preprocessors: each is fitted to the output of those before it."""

    def __init__(self, *preprocessors: Preprocessor) -> None:
        for each in preprocessors:
            if not isinstance(each, Preprocessor):
                raise TypeError(f"a Chain takes preprocessors, got {each!r}")
        self.preprocessors = preprocessors

    def fit_status(self) -> Preprocessor.FitStatus:
        """Fitted if all fittable preprocessors are, partially fitted if some are."""
        kinds = Preprocessor.FitStatus
        found = {each.fit_status() for each in self.preprocessors} - {kinds.NOT_FITTABLE}
        if not found:
            return kinds.NOT_FITTABLE
        return next(iter(found)) if len(found) == 1 else kinds.PARTIALLY_FITTED

    def fit(self, ds: Dataset) -> Preprocessor:
        """Fit each preprocessor to the output of those before it."""
        last = max((at for at, each in enumerate(self.preprocessors) if _fittable(each)), default=-1)
        for at, each in enumerate(self.preprocessors[: last + 1]):
            if _fittable(each):
                each.fit(ds)
            if at < last:
                ds = each.transform(ds)
        return self

    def fit_transform(self, ds: Dataset, **options: Any) -> Dataset:
        """Fit to a dataset and transform it; options as for `Preprocessor.fit_transform`."""
        self.fit(ds)
        return self.transform(
            ds, **{name.removeprefix("transform_"): value for name, value in options.items()}
        )

    def transform_batch(self, data: Any) -> Any:
        """Transform one batch with each preprocessor in turn; the result has the format of the last one."""
        self._need_fit("transform_batch")
        for each in self.preprocessors:
            data = each.transform_batch(data)
        return data

    def _transform_arrow(self, table: pa.Table) -> pa.Table:
        for each in self.preprocessors:
            table = each._transformed(table)
        return table

    def get_input_columns(self) -> list[str]:
        """Return the columns that any of the preprocessors reads."""
        return list(dict.fromkeys(name for each in self.preprocessors for name in each.get_input_columns()))

    def get_output_columns(self) -> list[str]:
        """Return the columns that any of the preprocessors writes."""
        return list(dict.fromkeys(name for each in self.preprocessors for name in each.get_output_columns()))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.preprocessors))})"


def _fittable(preprocessor: Preprocessor) -> bool:
    return preprocessor.fit_status() is not Preprocessor.FitStatus.NOT_FITTABLE
