"""Settings of runs, by the name that programs for older versions of Ray import them by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from skate.train.configs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow

#: What `checkpoint_score_order` may be.
MAX = "max"
MIN = "min"

#: A batch in one of the forms that batches have.
DataBatchType = Union["numpy.ndarray", "pyarrow.Table", "pandas.DataFrame", dict[str, "numpy.ndarray"]]

__all__ = ["MAX", "MIN", "CheckpointConfig", "DataBatchType", "FailureConfig", "RunConfig", "ScalingConfig"]
