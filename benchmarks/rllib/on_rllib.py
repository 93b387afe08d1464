"""The scenarios on RLlib's API: the same program for Skate and for Ray."""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.rllib.settings import BEFORE_LEARNING, SETTINGS, Settings


def part(target: str, path: str, name: str) -> Any:
    """Return a name of a module below the target's `rllib`."""
    return getattr(importlib.import_module(f"{target}.rllib.{path}"), name)


class OnRllib:
    """A training; each call of `iterate` is one iteration of the algorithm.

    Args:
        target: `skate` or `ray`.
        scenario: The name of the scenario, which may add a callback, a connector or agents.
        settings: Its sizes.
        seed: Of everything.
    """

    def __init__(self, target: str, scenario: str, settings: Settings, seed: int = 1) -> None:
        self.target, self.settings, self.sampling = target, settings, scenario == "sampling"
        config = config_of(target, settings).debugging(seed=seed)
        self.algorithm = SPECIAL.get(scenario, plain)(target, config).build_algo()
        self.sampled = 0

    def iterate(self) -> int:
        """Train one iteration, or sample one batch, and return its steps."""
        if self.sampling:
            runner = self.algorithm.env_runner
            if self.target == "skate":
                rollout = runner.sample_rollout(self.settings.batch // self.settings.envs)
                return int(rollout.num_steps)
            return sum(len(episode) for episode in runner.sample(num_timesteps=self.settings.batch))
        before, self.sampled = (
            self.sampled,
            int(self.algorithm.train()["num_env_steps_sampled_lifetime"]),
        )
        return self.sampled - before

    def close(self) -> None:
        """Stop the algorithm."""
        self.algorithm.stop()


def config_of(target: str, settings: Settings) -> Any:
    """Return the configuration with a scenario's sizes."""
    name = settings.algorithm
    config = (
        part(target, f"algorithms.{name.lower()}", f"{name}Config")()
        .environment(settings.env)
        .env_runners(num_env_runners=settings.runners, num_envs_per_env_runner=settings.envs)
        .rl_module(model_config={"fcnet_hiddens": list(settings.hidden)})
    )
    if name == "PPO":
        return config.training(
            train_batch_size=settings.batch,
            minibatch_size=settings.minibatch,
            num_epochs=settings.epochs,
            lr=settings.lr,
            lambda_=0.95,
            clip_param=0.2,
            vf_clip_param=1e9,
            use_kl_loss=False,
        )
    # As in Stable-Baselines3, whose networks for values have this activation.
    config.rl_module(model_config={"fcnet_hiddens": list(settings.hidden), "fcnet_activation": "relu"})
    config.reporting(min_sample_timesteps_per_iteration=settings.batch, min_time_s_per_iteration=0)
    config.training(
        num_steps_sampled_before_learning_starts=BEFORE_LEARNING,
        train_batch_size_per_learner=settings.minibatch,
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 50_000},
    )
    if name == "SAC":
        return config.training(actor_lr=settings.lr, critic_lr=settings.lr, alpha_lr=settings.lr)
    return config.training(lr=settings.lr, dueling=False, double_q=False)


def plain(target: str, config: Any) -> Any:
    """Return the configuration as it is."""
    return config


def with_callback(target: str, config: Any) -> Any:
    """Return the configuration with a callback in every step of an episode."""
    base = part(target, "callbacks.callbacks", "RLlibCallback")

    class Watching(base):  # type: ignore[misc]
        steps = 0

        def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
            self.steps += len(episode) > 0

    return config.callbacks(Watching)


def with_filter(target: str, config: Any) -> Any:
    """Return the configuration with observations scaled by their running mean and deviation."""
    kind = part(target, "connectors.env_to_module", "MeanStdFilter")
    return config.env_runners(env_to_module_connector=lambda env, spaces, device: kind())


def with_connector(target: str, config: Any) -> Any:
    """Return the configuration with a connector of one's own, which changes each observation."""
    path = "connectors.env_to_module.observation_preprocessor"
    base = part(target, path, "SingleAgentObservationPreprocessor")

    class Halving(base):  # type: ignore[misc]
        def recompute_output_observation_space(self, observations: Any, actions: Any) -> Any:
            return observations

        def preprocess(self, observation: Any, episode: Any) -> Any:
            return observation * observation.dtype.type(0.5)

    return config.env_runners(env_to_module_connector=lambda env, spaces, device: Halving())


def with_memory(target: str, config: Any) -> Any:
    """Return the configuration with an LSTM."""
    model = {"fcnet_hiddens": [64], "use_lstm": True, "lstm_cell_size": 64, "max_seq_len": 16}
    return config.rl_module(model_config=model)


def with_agents(target: str, config: Any) -> Any:
    """Return the configuration with four agents, which have a pole each and share two modules."""
    import gymnasium as gym  # this module is read by the runner of benchmarks too

    base = part(target, "env.multi_agent_env", "MultiAgentEnv")

    class FourPoles(base):  # type: ignore[misc]
        def __init__(self, config: Any = None) -> None:
            super().__init__()
            self.poles = {f"agent_{at}": gym.make("CartPole-v1") for at in range(4)}
            self.possible_agents = self.agents = list(self.poles)
            self.observation_spaces = {name: env.observation_space for name, env in self.poles.items()}
            self.action_spaces = {name: env.action_space for name, env in self.poles.items()}
            self.ended: set[str] = set()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.ended = set()
            pairs = {
                name: env.reset(seed=None if seed is None else seed + at)
                for at, (name, env) in enumerate(self.poles.items())
            }
            return {name: pair[0] for name, pair in pairs.items()}, {}

        def step(self, actions: dict[str, Any]) -> Any:
            found = {name: self.poles[name].step(action) for name, action in actions.items()}
            self.ended |= {name for name, step in found.items() if step[2] or step[3]}
            obs, rewards, terminateds, truncateds = (
                {name: step[at] for name, step in found.items()} for at in range(4)
            )
            terminateds["__all__"] = len(self.ended) == len(self.poles)
            truncateds["__all__"] = False
            return obs, rewards, terminateds, truncateds, {}

    return (
        config.environment(FourPoles)
        .env_runners(num_envs_per_env_runner=1)
        .multi_agent(
            policies={"even", "odd"},
            policy_mapping_fn=lambda agent, episode, **kwargs: ("even", "odd")[int(agent[-1]) % 2],
        )
    )


def by_default(target: str, config: Any) -> Any:
    """Return DQN's configuration with priorities, two heads and double estimates, which are its defaults."""
    buffer = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 50_000, "alpha": 0.6, "beta": 0.4}
    return config.training(dueling=True, double_q=True, replay_buffer_config=buffer)


def with_small_critics(target: str, config: Any) -> Any:
    """Return SAC's configuration with the networks of Stable-Baselines3.

    The default critic encodes observations and actions apart and has ten times as many parameters, which no setting of
    `model_config` changes.
    """
    import torch  # this module is read by the runner of benchmarks too

    encoder_out = part(target, "core.models.base", "ENCODER_OUT")

    class Encoder(torch.nn.Module):
        def __init__(self, inputs: int, hidden: tuple[int, ...]) -> None:
            super().__init__()
            layers: list[torch.nn.Module] = []
            for width in hidden:
                layers += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
                inputs = width
            self.layers = torch.nn.Sequential(*layers)

        def forward(self, batch: Any) -> dict[str, Any]:
            return {encoder_out: self.layers(torch.cat((batch["obs"], batch["actions"]), dim=-1))}

    class Catalog(part(target, "algorithms.sac.sac_catalog", "SACCatalog")):  # type: ignore[misc]
        def build_qf_encoder(self, framework: str) -> Any:
            inputs = self.observation_space.shape[0] + self.action_space.shape[0]
            return Encoder(inputs, SETTINGS["sac_small"].hidden)

    module = part(target, "algorithms.sac.torch.default_sac_torch_rl_module", "DefaultSACTorchRLModule")
    spec = part(target, "core.rl_module.rl_module", "RLModuleSpec")
    return config.rl_module(
        rl_module_spec=spec(module_class=module, catalog_class=Catalog),
        model_config={"fcnet_hiddens": list(SETTINGS["sac_small"].hidden), "fcnet_activation": "relu"},
    )


SPECIAL = {
    "callback": with_callback,
    "mean_std_filter": with_filter,
    "connector": with_connector,
    "lstm": with_memory,
    "multi_agent": with_agents,
    "dqn_default": by_default,
    "sac_small": with_small_critics,
}
