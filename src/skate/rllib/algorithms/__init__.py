"""Algorithms and their configurations.

algorithm_config/   the settings of any algorithm
algorithm.py        training in iterations, evaluation, checkpoints
ppo/, dqn/, sac/    one algorithm each: settings, training step, module, learner
"""

from __future__ import annotations
