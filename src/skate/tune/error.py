"""Exceptions raised by Tune."""

from __future__ import annotations

import traceback


class TuneError(Exception):
    """A search could not be run, or its trials failed."""


def tune_error_of(error: Exception) -> TuneError:
    """Return a TuneError with the traceback of an error. Its class is also that of the error, if a class can be both."""
    if isinstance(error, TuneError):
        return error
    text = "".join(traceback.format_exception(error))
    kind = type(error)
    members = {"__init__": Exception.__init__, "__str__": lambda self: text, "__module__": kind.__module__}
    try:
        made: TuneError = type(f"TuneError({kind.__name__})", (TuneError, kind), members)(text)
        return made
    except TypeError:  # the class has a layout or a constructor of its own
        return TuneError(text)


class BadExperiment(TuneError, ValueError):
    """The specification of an experiment is invalid."""


class UnknownMetricError(TuneError, ValueError):
    """A requested metric is not reported by any trial."""


class NoBestTrial(UnknownMetricError, RuntimeError):
    """No trial reports the metric that determines the best trial."""


class TrialEnded(BaseException):
    """Raised when a training function reports after its trial has been stopped, to unwind the function and
    end its process."""
