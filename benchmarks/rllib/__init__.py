"""Reinforcement learning: beside Ray RLlib, Stable-Baselines3 and a bare loop, on the same cores."""
