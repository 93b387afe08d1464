"""The learning curves of the benchmarks: scores of parts, interquartile means, intervals, and trainings in pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rllib.curves import curve_of, interval, iqm, points_below, scores
from benchmarks.rllib.finished import SIDES, Finished, settings_hash, table
from benchmarks.rllib.learning_run import piece, state_of
from benchmarks.rllib.learning_tasks import TASKS
from benchmarks.run import ROOT


def test_a_score_is_the_mean_of_the_episodes_that_end_in_a_part() -> None:
    episodes = [(5, 1.0), (10, 3.0), (11, 10.0), (40, 7.0)]
    assert scores(episodes, 40, 4).tolist() == [2.0, 10.0, 10.0, 7.0]
    with pytest.raises(ValueError, match="no episode"):
        scores([], 40)


def test_the_middle_half_counts_and_its_interval_holds_it() -> None:
    values = np.array([100.0, 1.0, 2.0, 3.0, -50.0])
    assert iqm(values) == 2.0
    low, high = interval(np.arange(20.0))
    assert low < 9.5 < high
    assert low > 2.0
    assert high < 17.0


def test_a_curve_that_is_lower_is_named_at_its_points_and_in_its_area() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, (5, 10))
    base = np.linspace(1, 10, 10) + noise
    late = base.copy()
    late[:, 4] -= 3.0
    assert points_below(curve_of(base), curve_of(base)) == []
    assert 4 in points_below(curve_of(late), curve_of(base))
    assert points_below(curve_of(base - 3), curve_of(base)) == list(range(11))


def test_a_training_goes_on_in_the_next_piece(tmp_path: Path) -> None:
    assert piece("ppo_cartpole", "skate", 1, tmp_path, seconds=600, steps=1000) == 1024
    first = state_of(tmp_path, TASKS["ppo_cartpole"], "skate")
    assert piece("ppo_cartpole", "skate", 1, tmp_path, seconds=600, steps=2000) == 2048
    second = state_of(tmp_path, TASKS["ppo_cartpole"], "skate")
    assert second["episodes"][: len(first["episodes"])] == first["episodes"]
    later = second["episodes"][len(first["episodes"]) :]
    assert later
    assert all(1024 < step <= 2048 for step, _ in later)
    # An episode that runs across the pieces has its whole return: one for each step of its lane.
    assert sum(value for _, value in second["episodes"]) <= 2048
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == [second["checkpoint"]]
    # What is complete is not trained again.
    assert piece("ppo_cartpole", "skate", 1, tmp_path, seconds=600, steps=2000) == 2048


def test_a_finished_training_is_kept_until_its_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, name = Finished(tmp_path), "ppo_cartpole"
    assert kept.curves(name) == {}
    for seed in (2, 1, 2):
        kept.add(
            name, "skate", seed, [(100_000 // 10 * at, 10.0 * at + seed) for at in range(1, 11)], 100_000, {}
        )
    # The other side has one of the two seeds: that is what can be compared.
    kept.add(name, "sb3", 1, [(100_000, 7.0)], 100_000, {"torch": "2"})
    assert kept.read(name)["skate"][2]["scores"] == [10.0 * at + 2 for at in range(1, 11)]
    assert kept.read(name)["sb3"][1]["versions"] == {"torch": "2"}
    assert {side: curve.seeds for side, curve in kept.curves(name).items()} == {"skate": 1, "sb3": 1}
    assert "| PPO CartPole-v1 | 100,000 | 1 | 56.0 (56.0 to 56.0) | 7.0 (7.0 to 7.0) | none |" in table(
        kept, [name]
    )
    monkeypatch.setitem(TASKS, name, replace(TASKS[name], ours=TASKS[name].ours | {"lr": 1.0}))
    assert kept.stale(name) == 2, "the other side does not read that setting"
    monkeypatch.setitem(TASKS, name, replace(TASKS[name], envs=4))
    assert kept.stale(name) == 3
    assert kept.curves(name) == {}
    kept.add(name, "skate", 1, [(100_000, 1.0)], 100_000, {})
    assert kept.stale(name) == 0
    assert list(kept.read(name)["skate"]) == [1]


def test_what_the_documentation_says_is_what_is_finished() -> None:
    finished = Finished()
    for name, task in TASKS.items():
        for side in SIDES:
            for seed, each in finished.read(name)[side].items():
                assert each["settings"] == settings_hash(task, side), (name, side, seed)
                assert len(each["scores"]) == 10
    assert table(finished, TASKS) in (ROOT / "docs" / "rllib.md").read_text(), (
        "print the table with `python -m benchmarks.rllib.learning --show --markdown`"
    )
