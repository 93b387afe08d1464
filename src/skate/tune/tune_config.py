"""Configs, under the names of `ray.tune.tune_config`."""

from __future__ import annotations

from skate.tune.configs import ResumeConfig, TuneConfig

__all__ = ["ResumeConfig", "TuneConfig"]
