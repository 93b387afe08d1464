"""One piece of one training: continue where the last piece ended, train for a while, save."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rllib.finished import settings_hash, versions_of
from benchmarks.rllib.learning_tasks import TASKS, Task
from benchmarks.rllib.on_rllib import with_small_critics
from benchmarks.rllib.returns import Counted, make

Until = Callable[[], bool]


def config_of(task: Task, seed: int) -> Any:
    """Return the configuration of a task for RLlib."""
    module = importlib.import_module(f"skate.rllib.algorithms.{task.algorithm.lower()}")
    config = (
        getattr(module, f"{task.algorithm}Config")()
        .environment(make, env_config={"id": task.env})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=task.envs)
        .rl_module(model_config={"fcnet_hiddens": list(task.hidden), **task.model})
        .training(
            **{name: loaded(value) if name == "learner_class" else value for name, value in task.ours.items()}
        )
        .debugging(seed=seed, log_sys_usage=False)
    )
    if task.algorithm != "PPO":
        config.reporting(min_sample_timesteps_per_iteration=500, min_time_s_per_iteration=0)
        config.training(store_buffer_in_checkpoints=True)
    if task.module is not None:
        from skate.rllib.core.rl_module.rl_module import RLModuleSpec  # installed for this side alone

        config.rl_module(rl_module_spec=RLModuleSpec(module_class=loaded(task.module)))
    if task.algorithm == "SAC":
        with_small_critics("skate", config)
    return config


def loaded(path: str) -> Any:
    """Return the class at a path."""
    module, _, kind = path.rpartition(".")
    return getattr(importlib.import_module(module), kind)


def on_skate(task: Task, seed: int, saved: Path | None, target: Path, done: Until) -> None:
    """Train on Skate until `done`, and save to `target`."""
    from skate.rllib.algorithms.algorithm import Algorithm  # installed for this side alone

    algorithm = config_of(task, seed).build_algo() if saved is None else Algorithm.from_checkpoint(saved)
    while not done():
        algorithm.train()
    algorithm.save_to_path(target)
    algorithm.stop()


def on_sb3(task: Task, seed: int, saved: Path | None, target: Path, done: Until) -> None:
    """Train on Stable-Baselines3 until `done`, and save to `target`."""
    import stable_baselines3 as sb3  # installed for this side alone
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Stop(BaseCallback):  # type: ignore[misc]
        def _on_step(self) -> bool:
            return not done()

    kind = getattr(sb3, task.algorithm)
    # Another seed after a restart: environments cannot be saved there, and shall not repeat their first episodes.
    env = make_vec_env(lambda: make({"id": task.env}), n_envs=task.envs, seed=seed + Counted.steps)
    if saved is None:
        policy = {"net_arch": list(task.hidden)}
        model = kind("MlpPolicy", env, policy_kwargs=policy, device="cpu", seed=seed, **task.sb3)
    else:
        model = kind.load(saved / "model", env=env, device="cpu")
        if task.algorithm != "PPO":
            model.load_replay_buffer(saved / "buffer")
    # One call with all steps that are left: the schedule of exploration is a share of them.
    model.learn(max(task.steps - model.num_timesteps, 1), callback=Stop(), reset_num_timesteps=False)
    target.mkdir(parents=True)
    model.save(target / "model")
    if task.algorithm != "PPO":
        model.save_replay_buffer(target / "buffer")


TRAINERS = {"skate": on_skate, "sb3": on_sb3}


def state_of(folder: Path, task: Task, side: str) -> dict[str, Any]:
    """Return what the last piece has left in a folder: steps, episodes, and the name of the checkpoint.

    Args:
        folder: Of one training.
        task: Its task; what other settings have left is no part of it.
        side: Its side.
    """
    file = folder / "state.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if found.get("settings") != settings_hash(task, side):
        return {"steps": 0, "episodes": [], "checkpoint": None}
    return found


def piece(name: str, target: str, seed: int, folder: Path, seconds: float, steps: int | None = None) -> int:
    """Train one piece.

    Args:
        name: The task.
        target: The side.
        seed: The seed.
        folder: Where this training is kept. A piece that is killed leaves what the last one has saved.
        seconds: How long to train at most.
        steps: Stop after so many steps in all; default those of the task.

    Returns:
        The steps so far.
    """
    state = state_of(folder, TASKS[name], target)
    wanted = TASKS[name].steps if steps is None else steps
    if state["steps"] >= wanted:
        return int(state["steps"])
    Counted.steps, Counted.episodes[:] = state["steps"], [tuple(each) for each in state["episodes"]]
    deadline = time.monotonic() + seconds
    saved = folder / state["checkpoint"] if state["checkpoint"] else None
    following = f"checkpoint-{int(time.time() * 1e6)}"
    folder.mkdir(parents=True, exist_ok=True)
    TRAINERS[target](
        TASKS[name],
        seed,
        saved,
        folder / following,
        lambda: Counted.steps >= wanted or time.monotonic() > deadline,
    )
    found = {
        "steps": Counted.steps,
        "episodes": Counted.episodes,
        "checkpoint": following,
        "settings": settings_hash(TASKS[name], target),
        "versions": versions_of(target),
    }
    draft = folder / "state.json.new"
    draft.write_text(json.dumps(found))
    os.replace(draft, folder / "state.json")
    for old in folder.glob("checkpoint-*"):
        if old.name != following:
            shutil.rmtree(old)
    return Counted.steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--target", choices=TRAINERS, default="skate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--steps", type=int, default=None)
    args = parser.parse_args()
    print(piece(args.task, args.target, args.seed, args.folder, args.seconds, args.steps), flush=True)


if __name__ == "__main__":
    main()
