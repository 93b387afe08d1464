"""Generated calls of episodes of one agent: reads, writes, parts, chunks and states answer as Ray's do."""

from __future__ import annotations

import random
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import numpy as np
import ray  # noqa: F401  (the alias of Skate, where Skate is under test)
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from recorded_answers import Answers, answer

ANSWERS = Answers("single_agent_calls")
BOX = gym.spaces.Box(-100, 100, (2,), np.float32)
SEEN = {
    "box": BOX,
    "choice": gym.spaces.Discrete(40),
    "nested": gym.spaces.Dict(
        {"a": gym.spaces.Discrete(40), "b": gym.spaces.Tuple([BOX, gym.spaces.Discrete(40)])}
    ),
}
ACTED = {"choice": gym.spaces.Discrete(40), "choices": gym.spaces.MultiDiscrete([40, 3]), "box": BOX}


def sample(space: Any, at: int) -> Any:
    """Return a value of a space that a step can be told from."""
    if isinstance(space, gym.spaces.Dict):
        return {key: sample(inner, at) for key, inner in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(sample(inner, at) for inner in space.spaces)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return np.array([at, at % 3])
    return at if isinstance(space, gym.spaces.Discrete) else np.array([at, -at], np.float32)


class Scene:
    """An episode with some steps, maybe a lookback.

    Args:
        seed: Of everything.
        nested: False for observations and outputs that are not nested.
    """

    def __init__(self, seed: int, nested: bool = True) -> None:
        self.dice = random.Random(seed)
        self.nested = nested
        self.seen = self.dice.choice(sorted(SEEN) if nested else ["box", "choice"])
        self.acted = self.dice.choice(sorted(ACTED))
        self.episode = SingleAgentEpisode(
            id_="e", observation_space=SEEN[self.seen], action_space=ACTED[self.acted]
        )
        self.at = 0
        self.episode.add_env_reset(sample(SEEN[self.seen], 0), {"i": 0})
        self.steps(self.dice.randint(1, 7))
        if self.dice.random() < 0.6:
            self.episode = self.episode.cut(self.dice.randint(0, 4))
            self.steps(self.dice.randint(1, 5))

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.at += 1
            outputs: dict[str, Any] = {"logp": -self.at / 4}
            if self.nested:
                outputs["state"] = {"h": np.array([self.at], np.float32)}
            self.episode.add_env_step(
                sample(SEEN[self.seen], self.at), sample(ACTED[self.acted], self.at), self.at / 2, {"i": self.at},
                extra_model_outputs=outputs,
            )  # fmt: skip

    def indices(self, size: int, back: int, fills: bool) -> Any:
        """Return indices; beyond the lookback, and beyond both ends at once, Ray's answers are not of one piece."""
        dice = self.dice
        kind = dice.choice(["int", "list", "slice", "all"])
        if kind == "int":
            return dice.randint(-back if self.episode.is_numpy else -7, 7)
        if kind == "list":
            return [
                dice.randint(-back if self.episode.is_numpy else -3, size - 1)
                for _ in range(dice.randint(1, 3))
            ]
        low, high = sorted((dice.randint(-8, 8), dice.randint(-8, 8)))
        if kind == "slice" and fills:
            low = dice.randint(-8, size)
            return slice(low, dice.randint(max(low, 0), size if low < -back else size + 3))
        return slice(dice.choice([None, low]), dice.choice([None, high])) if kind == "slice" else None

    def read(self) -> tuple[str, Any]:
        dice = self.dice
        name = dice.choice(["observations", "actions", "rewards", "infos", "extra_model_outputs"])
        options: dict[str, Any] = {"neg_index_as_lookback": True} if dice.random() < 0.4 else {}
        if dice.random() < 0.4 and name != "infos":
            options = {"fill": 0, "neg_index_as_lookback": True}
        held = self.episode.observations if name in ("observations", "infos") else self.episode.rewards
        indices = self.indices(len(held), held.lookback, "fill" in options)
        if dice.random() < 0.2 and name in ("observations", "actions"):
            options["one_hot_discrete"] = True
        first = (dice.choice(["logp", "state"]),) if name == "extra_model_outputs" else ()
        if isinstance(indices, list):
            options.pop("fill", None)
        if first == ("state",):
            options.pop("fill", None)
        question = f"get_{name}({first}, {indices}, {options})"
        return question, answer(lambda: getattr(self.episode, f"get_{name}")(*first, indices, **options))


@pytest.mark.parametrize("arrays", [False, True], ids=["lists", "arrays"])
@pytest.mark.parametrize("seed", range(12))
def test_reads(seed: int, arrays: bool) -> None:
    scene = Scene(seed)
    if arrays:
        scene.episode.to_numpy()
    ANSWERS.check(f"reads-{seed}-{arrays}", [scene.read() for _ in range(25)])


def facts(episode: Any) -> dict[str, Any]:
    return {
        "len": len(episode), "t": episode.t, "t_started": episode.t_started, "numpy": episode.is_numpy,
        "done": (episode.is_done, episode.is_terminated, episode.is_truncated), "id": episode.id_,
        "steps": (episode.env_steps(), episode.agent_steps()), "reset": episode.is_reset,
        "return": float(episode.get_return()), "custom": episode.custom_data,
        "back": [each.lookback for each in (episode.observations, episode.infos, episode.actions, episode.rewards)],
        "observations": episode.get_observations(), "actions": episode.get_actions(),
        "rewards": episode.get_rewards(), "infos": episode.get_infos(),
        "outputs": {key: episode.get_extra_model_outputs(key) for key in sorted(episode.extra_model_outputs)},
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(12, 20))
def test_parts(seed: int) -> None:
    scene = Scene(seed, nested=seed % 2 == 0)
    dice, found = scene.dice, []
    if seed % 2:
        scene.episode.to_numpy()
    size = len(scene.episode)
    for _ in range(10):
        start = dice.choice([None, dice.randint(-size, size)])
        first = 0 if start is None else start + (size if start < 0 else 0)
        stop = dice.choice([None, dice.randint(first, size)])
        back = dice.choice([None, 0, 1, 3])
        part = slice(start, stop)
        taken = answer(lambda: facts(scene.episode.slice(part, len_lookback_buffer=back)))  # noqa: B023
        found.append((f"slice({part}, {back})", taken))
    found.append(("[1:]", answer(lambda: facts(scene.episode[1:]))))
    found.append(("data", answer(lambda: scene.episode.get_data_dict())))
    ANSWERS.check(f"parts-{seed}", found)


@pytest.mark.parametrize("seed", range(20, 28))
def test_chunks(seed: int) -> None:
    scene = Scene(seed)
    first, back, found = scene.episode, scene.dice.randint(0, 3), []
    first.custom_data["mine"] = [seed]
    following = first.cut(len_lookback_buffer=back)
    found.append((f"cut({back})", answer(lambda: facts(following))))
    scene.episode = following
    scene.steps(scene.dice.randint(1, 3))
    following.custom_data["other"] = 1
    last = sample(SEEN[scene.seen], scene.at + 1), sample(ACTED[scene.acted], 1), 1.0
    outputs = {"logp": 0.0, "state": {"h": np.zeros(1, np.float32)}}
    flag = scene.dice.choice(["terminated", "truncated"])
    following.add_env_step(*last, extra_model_outputs=outputs, **{flag: True})
    found.append((flag, answer(lambda: facts(following))))
    again = SingleAgentEpisode.from_state(following.get_state())
    found.append(("state", answer(lambda: facts(again))))
    first.concat_episode(following)
    found.append(("concat", answer(lambda: facts(first))))
    found.append(("to_numpy", answer(lambda: facts(first.to_numpy()))))
    found.append(("state of arrays", answer(lambda: facts(SingleAgentEpisode.from_state(first.get_state())))))
    found.append(("step after the end", answer(lambda: first.add_env_step(*last))))
    found.append(("cut after the end", answer(lambda: first.cut())))
    found.append(("concat after the end", answer(lambda: first.concat_episode(following))))
    found.append(("second reset", answer(lambda: first.add_env_reset(last[0]))))
    ANSWERS.check(f"chunks-{seed}", found)


@pytest.mark.parametrize("arrays", [False, True], ids=["lists", "arrays"])
@pytest.mark.parametrize(
    ("data", "indices", "back"),
    [
        (9.0, 0, False), (9.0, -1, False), (9.0, -1, True), (9.0, 8, False), (9.0, -9, True), (9.0, -9, False),
        ([7.0, 8.0], slice(0, 2), False), ([7.0, 8.0], slice(-2, None), False), ([7.0, 8.0], slice(-1, 1), True),
        ([7.0], slice(0, 2), False), ([7.0, 8.0, 9.0], slice(0, 2), False), ([7.0, 8.0], [0, 2], False),
        ([7.0, 8.0, 9.0, 6.0], None, False), ([7.0, 8.0], None, False), ([7.0, 8.0], [0, 12], False),
    ],
)  # fmt: skip
def test_overwrites(data: Any, indices: Any, back: bool, arrays: bool) -> None:
    episode = SingleAgentEpisode(
        observations=[float(at) for at in range(7)], actions=list(range(6)), rewards=[at / 2 for at in range(6)],
        extra_model_outputs={"logp": [-float(at) for at in range(6)]}, len_lookback_buffer=2,
    )  # fmt: skip
    if arrays:
        episode.to_numpy()
    given = np.array(data, np.float32) if arrays else data
    found = []
    for name, key in (
        ("observations", {}),
        ("rewards", {}),
        ("actions", {}),
        ("extra_model_outputs", {"key": "logp"}),
    ):
        size = len(data) if isinstance(data, list) else 0
        more = isinstance(given, list | np.ndarray) and size == 4 and name == "observations"
        new = (np.append(given, np.float32(5.0)) if arrays else [*given, 5.0]) if more else given
        options = {"new_data": new, "at_indices": indices, "neg_index_as_lookback": back, **key}
        column = getattr(episode, name)["logp"] if key else getattr(episode, name)
        found.append((name, answer(lambda: getattr(episode, f"set_{name}")(**options))))  # noqa: B023
        found.append((f"{name} after it", answer(lambda: column.data)))  # noqa: B023
    ANSWERS.check(f"set-{data}-{indices}-{back}-{arrays}", found)
