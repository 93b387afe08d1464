"""FrameStackingLearner: stacked observations for all steps of an episode."""

from __future__ import annotations

import functools

from skate.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule

FrameStackingLearner = functools.partial(FrameStackingEnvToModule, as_learner_connector=True)
