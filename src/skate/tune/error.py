"""Exceptions raised by Tune."""

from __future__ import annotations


class TuneError(Exception):
    """A search could not be run, or its trials failed."""


class BadExperiment(TuneError, ValueError):
    """The specification of an experiment is invalid."""


class UnknownMetricError(TuneError, ValueError):
    """A metric was asked for that no trial reports."""


class NoBestTrial(UnknownMetricError, RuntimeError):
    """No trial reports the metric by which the best was asked for."""


class TrialEnded(BaseException):
    """Raised where a training function reports, when its trial has been stopped: the function is unwound and its process goes."""
