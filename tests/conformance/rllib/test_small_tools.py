"""Small public functions of RLlib: objects from configs, schedules, functions on arrays, marks, resources of a trial."""

from __future__ import annotations

import json
import pathlib
from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.utils.annotations import OverrideToImplementCustomLogic, is_overridden, override
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.from_config import from_config
from ray.rllib.utils.numpy import fc, flatten_inputs_to_1d_tensor, lstm, make_action_immutable
from ray.rllib.utils.schedules import (
    ConstantSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    PolynomialSchedule,
)


class Part:
    """Keeps its arguments."""

    def __init__(self, first: Any, second: float = 0.5, **more: Any) -> None:
        self.first, self.second, self.more = first, second, more


class OtherPart(Part):
    """Found beside `Part` by its name."""


class Unfinished(Part, ABC):
    """Cannot be made."""

    @abstractmethod
    def missing(self) -> None: ...


PATH = f"{__name__}.Part"


@pytest.mark.parametrize(
    ("cls", "config", "kind", "second"),
    [
        ({"type": Part, "first": 1}, None, Part, 0.5),
        (json.dumps({"type": PATH, "first": 1, "second": 2.5}), None, Part, 2.5),
        (f"type: {PATH}\nfirst: 1\nsecond: 3", None, Part, 3),
        (Part, {"first": 1}, Part, 0.5),
        (Part, {"type": "OtherPart", "first": 1}, OtherPart, 0.5),
        (Part, {"_args": [1, 4.0]}, Part, 4.0),
    ],
)
def test_an_object_from_a_config(cls: Any, config: Any, kind: type, second: float) -> None:
    made = from_config(cls, config)
    assert (type(made), made.first, made.second) == (kind, 1, second)
    assert from_config(cls, config, second=9).second == 9 if "_args" not in (config or {}) else True


def test_an_object_from_a_file(tmp_path: pathlib.Path) -> None:
    for name, text in (
        ("a.json", json.dumps({"type": PATH, "first": 1})),
        ("a.yml", f"type: {PATH}\nfirst: 1\n"),
    ):
        (tmp_path / name).write_text(text)
        assert from_config(str(tmp_path / name), more=5).more == {"more": 5}
    with pytest.raises(FileNotFoundError):
        from_config(str(tmp_path / "missing.json"))


def test_what_makes_no_object() -> None:
    assert from_config({"type": Unfinished, "first": 1}) is None
    part = Part(1)
    assert from_config(Part, part) is part
    with pytest.raises(ValueError, match="no_such"):
        from_config(Part, {"type": "no_such.Thing"})


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (ConstantSchedule(2.5, framework=None), {0: 2.5, 9: 2.5}),
        (
            LinearSchedule(schedule_timesteps=10, initial_p=2.0, final_p=1.0, framework=None),
            {0: 2, 5: 1.5, 10: 1, 99: 1},
        ),
        (
            PolynomialSchedule(schedule_timesteps=10, initial_p=2.0, final_p=1.0, power=2.0, framework=None),
            {0: 2, 5: 1.25, 10: 1, 99: 1},
        ),
        (
            ExponentialSchedule(schedule_timesteps=10, initial_p=2.0, decay_rate=0.25),
            {0: 2, 5: 1, 10: 0.5, 20: 0.125},
        ),
        (
            PiecewiseSchedule(endpoints=[(5, 0.0), (10, 5.0), (20, 0.0)], outside_value=-1.0, framework=None),
            {0: -1, 5: 0, 7: 2, 10: 5, 15: 2.5, 20: -1},
        ),
    ],
)
def test_schedules(schedule: Any, values: dict[int, float]) -> None:
    assert {step: pytest.approx(schedule(step)) for step in values} == values
    assert schedule.value(5) == schedule(5)


def test_parts_of_actions_that_cannot_be_changed() -> None:
    assert not make_action_immutable(np.zeros(3)).flags["WRITEABLE"]
    assert make_action_immutable(4) == 4
    with pytest.raises(TypeError):
        make_action_immutable({"a": 1})["a"] = 2


@pytest.mark.parametrize("steps", [False, True])
def test_nested_rows_as_one_array(steps: bool) -> None:
    spaces = {
        "b": gym.spaces.Discrete(3),
        "a": (gym.spaces.Box(-1, 1, (2, 1)), gym.spaces.MultiDiscrete([2, 2])),
    }
    rows = {"b": np.array([1, 2]), "a": (np.array([[[5], [6]], [[7], [8]]]), np.array([[0, 1], [1, 1]]))}
    flat = [[5, 6, 1, 0, 0, 1, 0, 1, 0], [7, 8, 0, 1, 0, 1, 0, 0, 1]]
    if steps:
        rows = {"b": rows["b"][:, None], "a": tuple(each[:, None] for each in rows["a"])}
        flat = [[row] for row in flat]
    assert flatten_inputs_to_1d_tensor(rows, spaces_struct=spaces, time_axis=steps).tolist() == flat


def test_layers_on_arrays() -> None:
    assert fc(np.ones((1, 2)), np.ones((2, 3)), np.ones(3)).tolist() == [[3, 3, 3]]
    outputs, (cell, last) = lstm(np.ones((2, 3, 1)), np.full((3, 8), 0.5), np.zeros(8))
    assert (outputs.shape, cell.shape) == ((2, 3, 2), (2, 2))
    assert np.allclose(outputs[:, -1], last)
    assert outputs[0, 0, 0] == pytest.approx(0.174, abs=1e-3)


def test_marks_of_methods() -> None:
    class Base:
        @OverrideToImplementCustomLogic
        def setup(self) -> None: ...

    class Own(Base):
        @override(Base)
        def setup(self) -> None: ...

    assert (is_overridden(Base().setup), is_overridden(Own().setup)) == (False, True)


class Moved(Checkpointable):
    """Keeps one number."""

    def __init__(self) -> None:
        self.number = 0

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"number": self.number}

    def set_state(self, state: Any) -> None:
        self.number = state["number"]

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {}


def test_a_checkpoint_whose_class_cannot_be_read(tmp_path: pathlib.Path) -> None:
    saved = Moved()
    saved.number = 5
    saved.save_to_path(tmp_path / "saved")
    file = tmp_path / "saved" / "class_and_ctor_args.pkl"
    # A module that was moved, a class that was renamed, and a protocol of another version of Python.
    for contents in (b"cno_such_module\nMoved\n.", b"cjson\nMoved\n.", b"\x80\xfe."):
        file.write_bytes(contents)
        assert Moved.from_checkpoint(tmp_path / "saved").number == 5
    file.write_bytes(b"")
    with pytest.raises(EOFError):
        Moved.from_checkpoint(tmp_path / "saved")


@pytest.mark.parametrize(("of_learner", "expected"), [(4, 4), ("auto", 1), (0, 1)])
def test_cpus_of_the_main_process(of_learner: Any, expected: float) -> None:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config.learners(num_learners=0, num_cpus_per_learner=of_learner)
    assert PPO.default_resource_request(config).bundles[0]["CPU"] == expected
