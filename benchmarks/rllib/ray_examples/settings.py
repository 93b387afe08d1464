"""How each example is run: its arguments, and what it needs that Skate or this machine does not have."""

from __future__ import annotations

from pathlib import Path

#: Where the file that every process reads is, and the one that starts programs without arguments.
START = Path(__file__).with_name("start")
#: Folders of the examples that are programs of the new API stack.
FOLDERS = (
    "algorithms",
    "connectors",
    "envs",
    "learners",
    "multi_agent",
    "offline_rl",
    "ray_serve",
    "ray_tune",
    "rl_modules",
)
#: For programs that take the usual arguments.
USUAL = ["--stop-iters", "1", "--num-env-runners", "1", "--num-cpus", "8", "--verbose", "0"]
#: Further arguments of one program.
ARGUMENTS: dict[str, list[str]] = {
    "multi_agent/multi_agent_cartpole": ["--num-agents", "2"],
    "multi_agent/multi_agent_pendulum": ["--num-agents", "2"],
    "envs/agents_act_simultaneously": ["--num-agents", "2"],
    "envs/agents_act_in_sequence": ["--num-agents", "2"],
    "connectors/multi_agent_observation_preprocessor": ["--num-agents", "2"],
    "multi_agent/pettingzoo_independent_learning": ["--num-agents", "2"],
    "multi_agent/pettingzoo_parameter_sharing": ["--num-agents", "2"],
    "multi_agent/rock_paper_scissors_heuristic_vs_learned": ["--num-agents", "2"],
    "multi_agent/rock_paper_scissors_learned_vs_learned": ["--num-agents", "2"],
    "multi_agent/two_step_game_with_grouped_agents": ["--num-agents", "2"],
    "multi_agent/self_play_league_based_with_open_spiel": ["--num-episodes-human-play", "0"],
    "multi_agent/self_play_with_open_spiel": ["--num-episodes-human-play", "0"],
    "rl_modules/pretraining_single_agent_training_multi_agent": ["--num-agents", "2"],
    "ray_serve/ray_serve_with_rllib": ["--no-render", "--checkpoint-freq", "1", "--num-episodes-served", "1"],
}
#: Times the usual limit, for programs that run until they have learnt something, or play Atari with images.
LONGER = {
    "envs/env_rendering_and_recording": 4.0,
    "ray_tune/custom_experiment": 3.0,
    "ray_tune/custom_logger": 3.0,
    "ray_tune/custom_progress_reporter": 3.0,
    "rl_modules/custom_cnn_rl_module": 3.0,
}
#: Programs for other algorithms than PPO, DQN, SAC and those that the examples write themselves.
OTHER_ALGORITHMS = {
    "algorithms/appo_custom_algorithm_w_shared_data_actor": "APPO",
    "algorithms/maml_lr_supervised_learning": "MAML",
    "offline_rl/offline_rl_with_image_data": "BC",
    "offline_rl/pretrain_bc_single_agent_evaluate_as_multi_agent": "BC",
    "offline_rl/train_w_bc_finetune_w_ppo": "BC",
    "ray_tune/appo_hyperparameter_tune": "APPO",
}


def programs(examples: Path) -> list[str]:
    """Return the programs of the folder of examples, without ``.py``, in order.

    Args:
        examples: The folder ``ray/rllib/examples``.
    """
    return [
        f"{folder}/{path.stem}"
        for folder in FOLDERS
        for path in sorted((examples / folder).glob("*.py"))
        if path.stem != "__init__"
    ]


def command_of(examples: Path, program: str) -> list[str]:
    """Return the command line of a program, after the interpreter.

    Args:
        examples: The folder ``ray/rllib/examples``.
        program: Its name, as `programs` returns it.
    """
    path = examples / f"{program}.py"
    more = ARGUMENTS.get(program, [])
    if "add_rllib_example_script_args" in path.read_text():
        return [str(path), *USUAL, *more]
    return [str(START / "with_cpus.py"), str(path), *more]
