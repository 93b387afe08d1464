"""Imports for pieces of work, made once in the process that workers are forked from, so that they share its memory."""

from __future__ import annotations

import contextlib

import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

import skate.data.exchange.join
import skate.data.exchange.keyed
import skate.data.exchange.ranges
import skate.data.exchange.shuffle
import skate.data.execution.work
import skate.data.source.formats.parquet
import skate.data.steps.batches
import skate.data.steps.block_size
import skate.data.steps.columns
import skate.data.steps.rows
import skate.data.steps.write  # noqa: F401

with contextlib.suppress(ImportError):
    import pandas  # noqa: F401  pyarrow imports it with the first array that it makes
    import pyarrow.pandas_compat  # noqa: F401
