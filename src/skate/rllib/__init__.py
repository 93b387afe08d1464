"""RLlib: reinforcement learning with one config, many environments, and state that survives.

Names are resolved on first use. ``import skate.rllib`` loads neither torch nor gymnasium.
"""
