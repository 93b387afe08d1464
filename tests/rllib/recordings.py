"""Recordings of Ray's modules: see ray_fixtures/generate.py."""

from __future__ import annotations

import pathlib

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

FIXTURES = pathlib.Path(__file__).parent / "ray_fixtures"
SMALL = {"fcnet_hiddens": [8, 6]}
BOX = spaces.Box(-1.0, 1.0, (4,), np.float32)
ARM = spaces.Box(-1.0, 1.0, (3,), np.float32)
MODULES: dict[str, tuple[gym.Space, gym.Space, dict]] = {
    "discrete_shared": (BOX, spaces.Discrete(2), {**SMALL, "vf_share_layers": True}),
    "discrete_apart": (BOX, spaces.Discrete(2), {**SMALL, "vf_share_layers": False}),
    "box_apart": (BOX, ARM, {**SMALL, "vf_share_layers": False, "head_fcnet_hiddens": [5]}),
    "box_free": (BOX, ARM, {**SMALL, "free_log_std": True, "fcnet_activation": "relu"}),
    "multi_discrete": (BOX, spaces.MultiDiscrete([2, 3]), {**SMALL, "fcnet_use_layernorm": True}),
    "nested_actions": (BOX, spaces.Dict({"b": spaces.Discrete(3), "a": ARM}), SMALL),
    "image": (
        spaces.Box(0.0, 1.0, (10, 10, 2), np.float32),
        spaces.Discrete(3),
        {"conv_filters": [[4, [4, 4], 2], [4, 3, 2, "valid"]]},
    ),
    "lstm_shared": (BOX, spaces.Discrete(2), {**SMALL, "use_lstm": True, "lstm_cell_size": 5}),
    "lstm_apart": (BOX, ARM, {**SMALL, "use_lstm": True, "lstm_cell_size": 5, "vf_share_layers": False}),
}


def recorded(name: str) -> dict[str, dict]:
    """Return a fixture as nested dicts of arrays."""
    nested: dict = {}
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        for path, array in arrays.items():
            place = nested
            *folders, last = path.split("/")
            for folder in folders:
                place = place.setdefault(folder, {})
            place[last] = array
    return nested


def tensors(columns: dict) -> dict:
    return {k: tensors(v) if isinstance(v, dict) else torch.as_tensor(v) for k, v in columns.items()}
