"""The column statistics of `Dataset.summary`, under Ray's module name."""

from __future__ import annotations

from skate.data.dataset.summary import DatasetSummary as DatasetSummary

__all__ = ["DatasetSummary"]
