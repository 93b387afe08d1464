"""Writes the fixtures of this folder with real Ray 2.60: run it with an interpreter that has ray[rllib].

    python tests/rllib/ray_fixtures/generate.py

It saves small modules of every kind (weights, inputs and outputs), one checkpoint folder as Ray writes it, and
PPO's losses and gradients for one batch.
"""

from __future__ import annotations

import pathlib
import shutil

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

HERE = pathlib.Path(__file__).parent
SMALL = {"fcnet_hiddens": [8, 6]}
BOX = gym.spaces.Box(-1.0, 1.0, (4,), np.float32)
IMAGE = gym.spaces.Box(0.0, 1.0, (10, 10, 2), np.float32)
ARM = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
NESTED = gym.spaces.Dict({"b": gym.spaces.Discrete(3), "a": ARM})
MODULES = {
    "discrete_shared": (BOX, gym.spaces.Discrete(2), {**SMALL, "vf_share_layers": True}),
    "discrete_apart": (BOX, gym.spaces.Discrete(2), {**SMALL, "vf_share_layers": False}),
    "box_apart": (BOX, ARM, {**SMALL, "vf_share_layers": False, "head_fcnet_hiddens": [5]}),
    "box_free": (BOX, ARM, {**SMALL, "free_log_std": True, "fcnet_activation": "relu"}),
    "multi_discrete": (BOX, gym.spaces.MultiDiscrete([2, 3]), {**SMALL, "fcnet_use_layernorm": True}),
    "nested_actions": (BOX, NESTED, SMALL),
    "image": (IMAGE, gym.spaces.Discrete(3), {"conv_filters": [[4, [4, 4], 2], [4, 3, 2, "valid"]]}),
    "lstm_shared": (BOX, gym.spaces.Discrete(2), {**SMALL, "use_lstm": True, "lstm_cell_size": 5}),
    "lstm_apart": (BOX, ARM, {**SMALL, "use_lstm": True, "lstm_cell_size": 5, "vf_share_layers": False}),
}


def flat(columns: dict, prefix: str = "") -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for name, value in columns.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}/")
        else:
            found[prefix + name] = value.detach().numpy()
    return found


def state_of(module: DefaultPPOTorchRLModule) -> dict:
    def rows(state: dict) -> dict:
        return {k: rows(v) if isinstance(v, dict) else torch.rand(3, *v.shape) for k, v in state.items()}

    return rows(module.get_initial_state())


def write_modules() -> None:
    for name, (observations, actions, model) in MODULES.items():
        torch.manual_seed(7)
        module = RLModuleSpec(
            module_class=DefaultPPOTorchRLModule,
            observation_space=observations,
            action_space=actions,
            model_config=model,
        ).build()
        shape = (3, 5) if module.is_stateful() else (3,)
        batch: dict = {"obs": torch.rand(*shape, *observations.shape) * 2 - 1}
        if module.is_stateful():
            batch["state_in"] = state_of(module)
        outs = module.forward_inference(batch)
        arrays = {f"in/{k}": v for k, v in flat(batch).items()} | {
            f"out/{k}": v for k, v in flat(outs).items()
        }
        arrays["values"] = module.compute_values(batch).detach().numpy()
        arrays |= {f"state/{k}": v for k, v in module.get_state().items()}
        deterministic = module.get_inference_action_dist_cls().from_logits(outs["action_dist_inputs"])
        best = deterministic.to_deterministic().sample()
        arrays |= flat(best, "best/") if isinstance(best, dict) else {"best": best.numpy()}
        np.savez_compressed(HERE / f"module_{name}.npz", **arrays)
        if name == "box_apart":
            shutil.rmtree(HERE / "checkpoint_box_apart", ignore_errors=True)
            module.save_to_path(str(HERE / "checkpoint_box_apart"))


LOSSES = {
    "discrete": (gym.spaces.Discrete(3), {"entropy_coeff": 0.01, "vf_clip_param": 0.5}),
    "box": (ARM, {"use_kl_loss": False, "grad_clip": 0.1, "vf_loss_coeff": 0.5}),
    "no_critic": (ARM, {"use_critic": False, "kl_coeff": 0.7, "grad_clip": 0.02, "grad_clip_by": "norm"}),
}


def write_losses() -> None:
    for name, (actions, training) in LOSSES.items():
        torch.manual_seed(3)
        model = {**SMALL, "vf_share_layers": False}
        config = PPOConfig().training(lr=0.01, **training).rl_module(model_config=model)
        config.environment(observation_space=BOX, action_space=actions)
        learner = config.build_learner()
        module = learner.module["default_policy"]
        kind = module.get_train_action_dist_cls()
        rows = 32
        inputs = torch.randn(rows, kind.required_input_dim(actions)) * 0.3
        drawn = kind.from_logits(inputs).sample()
        batch = {
            "obs": torch.rand(rows, 4) * 2 - 1,
            "actions": drawn,
            "action_logp": kind.from_logits(inputs).logp(drawn),
            "action_dist_inputs": inputs,
            "advantages": torch.randn(rows),
            "value_targets": torch.randn(rows),
        }
        arrays = {f"batch/{k}": v.numpy() for k, v in batch.items()}
        arrays |= {f"before/{k}": v for k, v in module.get_state().items()}
        outs = learner.module.forward_train({"default_policy": batch})
        losses = learner.compute_losses(fwd_out=outs, batch={"default_policy": batch})
        gradients = learner.compute_gradients(losses)
        arrays["loss"] = losses["default_policy"].detach().numpy()
        names = {parameter: key for key, parameter in module.named_parameters()}
        arrays |= {f"gradient/{names[p]}": g.numpy().copy() for p, g in gradients.items() if g is not None}
        learner.apply_gradients(learner.postprocess_gradients(gradients))
        arrays |= {f"after/{k}": v for k, v in module.get_state().items()}
        learner.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": 32})
        arrays["kl_coeff"] = np.asarray(float(learner.curr_kl_coeffs_per_module["default_policy"]))
        stats = learner.metrics.reduce()["default_policy"]
        for key in (
            "policy_loss",
            "vf_loss",
            "vf_loss_unclipped",
            "vf_explained_var",
            "entropy",
            "mean_kl_loss",
        ):
            value = stats[key]
            arrays[f"stat/{key}"] = np.asarray(float(value.peek() if hasattr(value, "peek") else value))
        np.savez_compressed(HERE / f"ppo_loss_{name}.npz", **arrays)


Q_LOSSES = {
    "dqn_dueling": (DQNConfig, gym.spaces.Discrete(3), {"lr": 0.01}),
    "dqn_plain": (
        DQNConfig,
        gym.spaces.Discrete(3),
        {"dueling": False, "double_q": False, "td_error_loss_fn": "mse"},
    ),
    "dqn_atoms": (DQNConfig, gym.spaces.Discrete(3), {"num_atoms": 5, "v_min": -2.0, "v_max": 2.0}),
    "sac_box": (SACConfig, ARM, {"initial_alpha": 0.5}),
    "sac_single": (SACConfig, ARM, {"twin_q": False}),
    "sac_discrete": (SACConfig, gym.spaces.Discrete(3), {}),
}


def write_q_losses() -> None:
    for name, (kind, actions, training) in Q_LOSSES.items():
        torch.manual_seed(3)
        config = kind().training(**training)
        config.rl_module(model_config={**SMALL, "head_fcnet_hiddens": [5], "fusionnet_hiddens": [7]})
        config.environment(observation_space=BOX, action_space=actions)
        # Without a spec SAC's learner does not find the space of the actions.
        learner = config.learner_class(config=config, module_spec=config.get_multi_rl_module_spec())
        learner.build()
        module = learner.module["default_policy"]
        rows = 32
        discrete = isinstance(actions, gym.spaces.Discrete)
        batch = {
            "obs": torch.rand(rows, 4) * 2 - 1,
            "new_obs": torch.rand(rows, 4) * 2 - 1,
            "actions": torch.randint(0, 3, (rows,)) if discrete else torch.rand(rows, 3) * 2 - 1,
            "rewards": torch.randn(rows),
            "terminateds": torch.rand(rows) < 0.3,
            "weights": torch.rand(rows),
            "n_step": torch.randint(1, 4, (rows,)).float(),
        }
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += torch.randn(parameter.shape) * 0.1
        arrays = {f"batch/{k}": v.numpy() for k, v in batch.items()}
        arrays |= {f"before/{k}": v.copy() for k, v in module.get_state().items()}
        torch.manual_seed(11)
        outs = learner.module.forward_train({"default_policy": batch})
        losses = learner.compute_losses(fwd_out=outs, batch={"default_policy": batch})
        gradients = learner.compute_gradients(losses)
        arrays["loss"] = losses["default_policy"].detach().numpy()
        names = {parameter: key for key, parameter in module.named_parameters()}
        arrays |= {
            f"gradient/{names.get(p, 'log_alpha')}": g.numpy().copy()
            for p, g in gradients.items()
            if g is not None
        }
        learner.apply_gradients(learner.postprocess_gradients(gradients))
        learner.after_gradient_based_update(timesteps={"num_env_steps_sampled_lifetime": 600})
        arrays |= {f"after/{k}": v for k, v in module.get_state().items()}
        stats = learner.metrics.reduce()["default_policy"]
        for key in (
            "policy_loss",
            "qf_loss",
            "qf_twin_loss",
            "alpha_loss",
            "alpha_value",
            "qf_mean",
            "qf_min",
            "td_error_mean",
        ):
            if key in stats:
                value = stats[key]
                arrays[f"stat/{key}"] = np.asarray(float(value.peek() if hasattr(value, "peek") else value))
        np.savez_compressed(HERE / f"q_loss_{name}.npz", **arrays)


if __name__ == "__main__":
    write_modules()
    write_losses()
    write_q_losses()
