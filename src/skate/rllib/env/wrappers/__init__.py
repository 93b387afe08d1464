"""Wrappers: environments of PettingZoo, and preprocessing of Atari games."""
