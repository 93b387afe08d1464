"""Exceptions raised by Tune."""

from __future__ import annotations


class TuneError(Exception):
    """A search could not be run, or its trials failed."""


class BadExperiment(TuneError, ValueError):
    """The specification of an experiment is invalid."""


class UnknownMetricError(TuneError, ValueError):
    """A requested metric is not reported by any trial."""


class NoBestTrial(UnknownMetricError, RuntimeError):
    """No trial reports the metric that determines the best trial."""


class TrialEnded(BaseException):
    """Raised when a training function reports after its trial has been stopped, to unwind the function and
    end its process."""
