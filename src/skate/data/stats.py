"""The statistics of columns that `Dataset.summary` gives, under the name that programs for Ray import them by."""

from __future__ import annotations

from skate.data.dataset.summary import DatasetSummary as DatasetSummary

__all__ = ["DatasetSummary"]
