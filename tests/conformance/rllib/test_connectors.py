"""Connectors: items of batches, pipelines, filters and their states, and preprocessors of observations."""

from __future__ import annotations

import base64
import io
import zlib
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import (
    EnvToModulePipeline,
    FlattenObservations,
    MeanStdFilter,
    PrevActionsPrevRewards,
)
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from recorded_answers import Answers, plain

ANSWERS = Answers("connectors")
BOX = gym.spaces.Box(-100, 100, (2,), np.float32)
CHOICE = gym.spaces.Discrete(3)


class Plus(ConnectorV2):
    """Adds a number to each observation that is in the batch."""

    def __init__(self, *args: Any, amount: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.amount, self.calls = amount, 0

    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, explore: Any = None, **kwargs: Any
    ) -> Any:
        self.calls += 1
        batch["obs"] = [each + self.amount for each in batch.get("obs", [])]
        return batch

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return {"calls": self.calls}

    def set_state(self, state: dict[str, Any]) -> None:
        self.calls = state["calls"]


class Wider(ConnectorV2):
    """Declares one number more."""

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        return gym.spaces.Box(-100, 100, (input_observation_space.shape[0] + 1,), np.float32)

    def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        return batch


def episode(agent: str | None = None, steps: int = 0, space: Any = BOX) -> SingleAgentEpisode:
    found = SingleAgentEpisode(
        id_=f"e{agent or ''}", agent_id=agent, module_id=agent and f"m{agent}",
        multi_agent_episode_id=agent and "whole", observation_space=space, action_space=CHOICE,
    )  # fmt: skip
    found.add_env_reset(np.array([0.0, 1.0], np.float32) if space is BOX else space.sample())
    for at in range(steps):
        found.add_env_step(np.array([at + 1.0, at + 2.0], np.float32), at % 3, float(at))
    return found


def test_items_of_columns() -> None:
    batch: dict[str, Any] = {}
    ConnectorV2.add_batch_item(batch, "x", item_to_add=5)
    ConnectorV2.add_batch_item(batch, "x", item_to_add=6)
    assert batch == {"x": [5, 6]}
    batch = {}
    for value in (5, 6):
        ConnectorV2.add_batch_item(batch, "x", item_to_add=value, single_agent_episode=episode())
    ConnectorV2.add_n_batch_items(batch, "y", [1, 2, 3], num_items=3, single_agent_episode=episode())
    assert batch == {"x": {("e",): [5, 6]}, "y": {("e",): [1, 2, 3]}}
    batch = {}
    for agent in ("a", "b"):
        ConnectorV2.add_batch_item(batch, "x", item_to_add=agent, single_agent_episode=episode(agent))
    assert batch == {"x": {("whole", "a", "ma"): ["a"], ("whole", "b", "mb"): ["b"]}}
    with pytest.raises((ValueError, AssertionError)):
        ConnectorV2.add_n_batch_items(batch, "y", [1, 2], num_items=3, single_agent_episode=episode("a"))


def test_items_are_changed_in_place() -> None:
    batch: dict[str, Any] = {"x": {("e",): [1, 2], ("f",): [3]}, "y": {("e",): [10, 20], ("f",): [30]}}
    seen = []

    def twice(item: Any, episode_id: Any, agent_id: Any, module_id: Any) -> Any:
        seen.append((episode_id, agent_id, module_id))
        return item * 2

    ConnectorV2.foreach_batch_item_change_in_place(batch, "x", twice)
    assert batch["x"] == {("e",): [2, 4], ("f",): [6]} and seen[0] == ("e", None, None) and len(seen) == 3
    ConnectorV2.foreach_batch_item_change_in_place(
        batch, ["x", "y"], lambda items, *ids: (items[0] + items[1], items[1])
    )
    assert batch["x"] == {("e",): [12, 24], ("f",): [36]} and batch["y"][("f",)] == [30]
    by_agent = {"x": {("whole", "a", "ma"): [1]}}
    ConnectorV2.foreach_batch_item_change_in_place(by_agent, "x", lambda item, *ids: ids)
    assert by_agent == {"x": {("whole", "a", "ma"): [("whole", "a", "ma")]}}
    with pytest.raises(ValueError):
        ConnectorV2.foreach_batch_item_change_in_place(batch, "z", twice)


def test_columns_by_module() -> None:
    found = ConnectorV2.switch_batch_from_column_to_module_ids({"x": {"m": 1, "n": 2}, "y": {"m": 3}})
    assert found == {"m": {"x": 1, "y": 3}, "n": {"x": 2}}


def test_the_episodes_of_single_agents() -> None:
    whole = MultiAgentEpisode()
    whole.add_env_reset(observations={"a": 0, "b": 0})
    whole.add_env_step({"a": 1}, {"a": 0, "b": 0}, {"a": 1.0})
    ids = [each.agent_id for each in ConnectorV2.single_agent_episode_iterator([whole])]
    assert ids == ["a"]
    both = ConnectorV2.single_agent_episode_iterator([whole], agents_that_stepped_only=False)
    assert {each.agent_id for each in both} == {"a", "b"}
    single = [episode(), SingleAgentEpisode(id_="f", observations=[0])]
    assert list(ConnectorV2.single_agent_episode_iterator(single)) == single
    column = {("e",): [7], ("f",): [8]}
    pairs = list(ConnectorV2.single_agent_episode_iterator(single, zip_with_batch_column=column))
    assert [item for _, item in pairs] == [7, 8]


def spaced(made: Any, observations: Any, actions: Any = CHOICE) -> Any:
    """Give a connector its spaces, as a pipeline does."""
    made.input_action_space = actions
    made.input_observation_space = observations
    return made


def names(pipeline: Any) -> list[str]:
    return [type(each).__name__ for each in pipeline.connectors]


def test_a_pipeline_is_changed_by_class_and_by_name() -> None:
    pipeline = ConnectorPipelineV2(BOX, CHOICE, connectors=[Plus()])
    pipeline.append(Wider())
    pipeline.prepend(MeanStdFilter())
    assert names(pipeline) == ["MeanStdFilter", "Plus", "Wider"] and len(pipeline) == 3
    plus = pipeline[1]
    assert pipeline.insert_before("Plus", Wider()) is plus and pipeline.insert_after(Plus, Wider()) is plus
    assert names(pipeline) == ["MeanStdFilter", "Wider", "Plus", "Wider", "Wider"]
    assert pipeline.observation_space.shape == (5,) and pipeline.action_space == CHOICE
    pipeline.remove("Wider")
    pipeline.remove(MeanStdFilter)
    assert names(pipeline) == ["Plus", "Wider", "Wider"] and pipeline.observation_space.shape == (4,)
    pipeline.remove("NoSuch")
    assert len(pipeline) == 3
    assert pipeline[Plus] == [plus] and len(pipeline[ConnectorV2]) == 3
    assert repr(pipeline).split() == ["ConnectorPipelineV2", "Plus", "Wider", "Wider"]
    with pytest.raises(NotImplementedError):
        pipeline[0:1]


def test_a_pipeline_runs_its_connectors_in_order_and_keeps_their_states() -> None:
    pipeline = ConnectorPipelineV2(BOX, CHOICE, connectors=[Plus(amount=1.0), Wider()])
    batch = pipeline(rl_module=None, batch={"obs": [1.0]}, episodes=[], explore=False, shared_data={})
    assert batch == {"obs": [2.0]}
    assert pipeline.get_state() == {"Plus": {"calls": 1}}
    assert pipeline.get_state(components="Plus") == {"Plus": {"calls": 1}}
    assert pipeline.get_state(not_components="Plus") == {}
    other = ConnectorPipelineV2(BOX, CHOICE, connectors=[Plus()])
    other.set_state(pipeline.get_state())
    assert other[0].calls == 1
    assert [name for name, _ in pipeline.get_checkpointable_components()] == ["Plus", "Wider"]


def test_a_pipeline_is_made_from_its_checkpoint(tmp_path: Any) -> None:
    pipeline = EnvToModulePipeline(BOX, CHOICE, connectors=[MeanStdFilter(clip_by_value=3.0)])
    pipeline(rl_module=None, batch={}, episodes=[episode(), episode()], explore=False, shared_data={})
    path = pipeline.save_to_path(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "MeanStdFilter" / "state.pkl").is_file()
    again = EnvToModulePipeline.from_checkpoint(path)
    assert names(again) == ["MeanStdFilter"] and again[0].clip_by_value == 3.0
    assert again.get_state()["MeanStdFilter"][None]["running_stats"][0]["num_pushes"] == 2
    assert again.observation_space.shape == (2,)


SEEN = [np.array([at, 3.0 * at - 1], np.float32) for at in (1.0, 2.0, 4.0, 8.0, 3.0)]


def filtered(made: Any, rows: list[Any]) -> list[Any]:
    found = []
    for row in rows:
        one = SingleAgentEpisode(observation_space=BOX, action_space=CHOICE)
        one.add_env_reset(row)
        made(rl_module=None, batch={}, episodes=[one], explore=False, shared_data={})
        found.append(one.get_observations(-1).tolist())
    return found


def rounded(values: Any) -> Any:
    return [[round(number, 3) for number in row] for row in values]


ARRAYS = ("mean_array", "sum_sq_diff_array", "mean_delta_array", "sum_sq_diff_delta_array")


def text_of(array: Any) -> str:
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(zlib.compress(file.getvalue())).decode("ascii")


def array_of(text: str) -> Any:
    return np.load(io.BytesIO(zlib.decompress(base64.b64decode(text))))


def numbers_in(state: dict[Any, Any]) -> dict[str, Any]:
    """Return a filter's state with its arrays as lists."""
    (held,) = state.values()
    (stats,) = held["running_stats"]
    # More keys are of no harm: Ray leaves them out.
    assert list(state) == [None] and set(stats) >= {"num_pushes", "num_pushes_delta", *ARRAYS}
    return {
        **{key: held[key] for key in ("shape", "de_mean_to_zero", "de_std_to_one", "clip_by_value")},
        **{key: stats[key] for key in ("num_pushes", "num_pushes_delta")},
        **{key: array_of(stats[key]) for key in ARRAYS},
    }  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [{}, {"de_mean_to_zero": False}, {"de_std_to_one": False}, {"clip_by_value": 0.5}],
    ids=str,
)
def test_a_filter_normalizes_and_has_a_state_that_crosses(settings: dict[str, Any]) -> None:
    made = spaced(MeanStdFilter(**settings), BOX)
    outputs = filtered(made, SEEN)
    state = made.get_state()
    case = f"filter-{settings}"
    ANSWERS.check(case, [("outputs", rounded(outputs)), ("state", plain(numbers_in(state)))])
    theirs = dict(dict(ANSWERS.by_case[case])["state"])
    stats = {key: text_of(np.array(value, np.float64)) for key, value in theirs.items() if key in ARRAYS}
    stats |= {key: theirs.pop(key) for key in ("num_pushes", "num_pushes_delta")}
    kept = {key: value for key, value in theirs.items() if key not in ARRAYS}
    other = spaced(MeanStdFilter(), BOX)
    other.set_state({None: {**kept, "shape": np.array(theirs["shape"]), "running_stats": [stats]}})
    more = [np.array([5.0, 5.0], np.float32)]
    assert filtered(other, more)[0] == pytest.approx(filtered(made, more)[0], abs=1e-4)


def test_a_filter_that_is_frozen_does_not_learn() -> None:
    made = spaced(MeanStdFilter(), BOX)
    filtered(made, SEEN)
    frozen = spaced(MeanStdFilter(update_stats=False), BOX)
    frozen.set_state(made.get_state())
    first = filtered(frozen, SEEN[:1])
    assert filtered(frozen, SEEN[:1]) == first
    assert frozen.get_state()[None]["running_stats"][0]["num_pushes"] == 5
    made.reset_state()
    assert made.get_state()[None]["running_stats"][0]["num_pushes"] == 0


def test_filters_of_agents_are_apart() -> None:
    spaces = gym.spaces.Dict({"a": BOX, "b": BOX})
    made = spaced(MeanStdFilter(multi_agent=True), spaces, gym.spaces.Dict({"a": CHOICE, "b": CHOICE}))
    whole = MultiAgentEpisode(observation_space=spaces)
    whole.add_env_reset(observations={"a": SEEN[0], "b": SEEN[1]})
    whole.add_env_step({"a": SEEN[2]}, {"a": 0, "b": 0}, {"a": 1.0, "b": 1.0})
    made(rl_module=None, batch={}, episodes=[whole], explore=False, shared_data={})
    state = made.get_state()
    pushes = {agent: state[agent]["running_stats"][0]["num_pushes"] for agent in "ab"}
    assert pushes == {"a": 1, "b": 0}


NESTED = gym.spaces.Dict(
    {"b": gym.spaces.Discrete(3), "a": gym.spaces.Tuple([BOX, gym.spaces.MultiDiscrete([2, 3])])}
)


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (gym.spaces.Discrete(3), 2, [0, 0, 1]),
        (gym.spaces.MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (gym.spaces.Box(-1, 9, (2, 2), np.float32), np.array([[1, 2], [3, 4]], np.float32), [1, 2, 3, 4]),
        (
            NESTED,
            {"b": 1, "a": (np.array([7, 8], np.float32), np.array([0, 2]))},
            [7, 8, 1, 0, 0, 0, 1, 0, 1, 0],
        ),
    ],
    ids=["choice", "choices", "matrix", "nested"],
)
def test_observations_are_flattened(space: Any, value: Any, expected: list[float]) -> None:
    made = spaced(FlattenObservations(), space)
    one = SingleAgentEpisode(observation_space=space, action_space=CHOICE)
    one.add_env_reset(value)
    batch: dict[str, Any] = {}
    made(rl_module=None, batch=batch, episodes=[one], explore=False, shared_data={})
    assert one.get_observations(-1).tolist() == expected
    assert made.observation_space.shape == (len(expected),)


def test_frames_are_stacked() -> None:
    pixels = gym.spaces.Box(-100, 100, (2, 1, 1), np.float32)
    made = spaced(FrameStackingEnvToModule(num_frames=3), pixels)
    assert made.observation_space.shape == (2, 1, 3)
    one = SingleAgentEpisode(id_="e", observation_space=pixels, action_space=CHOICE)
    one.add_env_reset(np.array([[[0.0]], [[1.0]]], np.float32))
    one.add_env_step(np.array([[[1.0]], [[2.0]]], np.float32), 0, 1.0)
    batch = made(rl_module=None, batch={}, episodes=[one], explore=False, shared_data={})
    (rows,) = batch["obs"].values()
    assert np.asarray(rows[0]).tolist() == [[[0, 0, 1]], [[0, 1, 2]]]


def test_earlier_actions_and_rewards_are_added() -> None:
    made = spaced(PrevActionsPrevRewards(n_prev_actions=2, n_prev_rewards=1), BOX)
    one = episode(steps=3)
    made(rl_module=None, batch={}, episodes=[one], explore=False, shared_data={})
    found = one.get_observations(-1)
    values = list(found.values())
    assert len(values) == 3 and values[0].tolist() == [3, 4]
    assert sorted(np.asarray(each).size for each in values) == [1, 2, 6]
    assert isinstance(made.observation_space, gym.spaces.Dict) and set(made.observation_space) == set(found)


class Halved(SingleAgentObservationPreprocessor):
    """Keeps the first half of an observation."""

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        return gym.spaces.Box(-100, 100, (1,), np.float32)

    def preprocess(self, observation: Any, episode: Any) -> Any:
        return observation[:1]


def test_a_preprocessor_of_observations() -> None:
    made = spaced(Halved(), BOX)
    one = episode(steps=2)
    made(rl_module=None, batch={}, episodes=[one], explore=False, shared_data={})
    assert one.get_observations(-1).tolist() == [2.0]
    assert one.get_observations([0, 1])[0].tolist() == [0.0, 1.0]
    assert made.observation_space.shape == (1,)
