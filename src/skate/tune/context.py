"""The identity of a trial, under the names of `ray.tune.context`."""

from __future__ import annotations

from skate.tune.trainable.session import TuneContext, get_context

__all__ = ["TuneContext", "get_context"]
