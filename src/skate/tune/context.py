"""Who a trial is, by the names that programs know from `ray.tune.context`."""

from __future__ import annotations

from skate.tune.trainable.session import TuneContext, get_context

__all__ = ["TuneContext", "get_context"]
