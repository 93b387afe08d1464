"""Sequences of modules with memory: each step once, with the state that its episode has reached."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from skate.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from skate.rllib.connectors.env_to_module import MeanStdFilter
from skate.rllib.core.columns import Columns
from skate.rllib.core.models.configs import MLPEncoderConfig, RecurrentEncoderConfig
from skate.rllib.core.rl_module import RLModuleSpec
from skate.rllib.env.multi_agent_env import make_multi_agent
from skate.rllib.env.rollout import Rollout
from skate.rllib.env.sampling.sequence_rows import fresh_starts, pieces_of
from tests.rllib.learner_settings import Config
from tests.rllib.recordings import BOX, SMALL


def rollout_of(seed: int, steps: int, lanes: int) -> Rollout:
    numbers = np.random.default_rng(seed)
    valid = numbers.random((steps, lanes)) < 0.9
    return Rollout(
        columns={
            Columns.OBS: numbers.uniform(-1, 1, (steps, lanes, 4)).astype(np.float32),
            Columns.ACTIONS: numbers.integers(0, 2, (steps, lanes)),
            Columns.REWARDS: np.arange(steps * lanes, dtype=np.float32).reshape(steps, lanes),
            Columns.TERMINATEDS: (numbers.random((steps, lanes)) < 0.15) & valid,
            Columns.TRUNCATEDS: (numbers.random((steps, lanes)) < 0.15) & valid,
            Columns.ACTION_LOGP: np.full((steps, lanes), -0.7, np.float32),
            Columns.ACTION_DIST_INPUTS: np.zeros((steps, lanes, 2), np.float32),
        },
        valid=valid,
        next_obs=numbers.uniform(-1, 1, (steps, lanes, 4)).astype(np.float32),
    )


def learner_of(**model: Any) -> PPOTorchLearner:
    config = Config(
        lr=0.01, seed=5, gamma=0.9, lambda_=0.8, use_gae=True, use_critic=True, use_kl_loss=True, kl_coeff=0.2,
        kl_target=0.01, vf_loss_coeff=1.0, entropy_coeff=0.0, clip_param=0.3, vf_clip_param=1e9, grad_clip=None,
    )  # fmt: skip
    spec = RLModuleSpec(
        module_class=DefaultPPOTorchRLModule,
        observation_space=BOX,
        action_space=spaces.Discrete(2),
        model_config={**SMALL, "use_lstm": True, "lstm_cell_size": 5, "max_seq_len": 4, **model},
    )
    learner = PPOTorchLearner(config=config, module_spec=spec)
    learner.build()
    return learner


@pytest.mark.parametrize("seed", range(4))
def test_pieces_have_each_step_once_and_never_two_episodes(seed: int) -> None:
    rollout = rollout_of(seed, 23, 3)
    rows, mask = pieces_of(rollout, 4)
    assert sorted(rows[mask].tolist()) == np.flatnonzero(rollout.valid.reshape(-1)).tolist()
    fresh = fresh_starts(rollout).reshape(-1)
    for piece, real in zip(rows, mask, strict=True):
        kept = piece[real]
        assert (np.diff(kept) == 3).all() and not fresh[kept[1:]].any()


@pytest.mark.parametrize("shared", [True, False])
def test_sequences_give_the_outputs_of_a_walk_over_each_episode(shared: bool) -> None:
    learner = learner_of(vf_share_layers=shared)
    module = learner.module["default_policy"]
    rollout = rollout_of(1, 17, 2)
    batch = learner.make_batches([rollout])["default_policy"]
    mask = batch[Columns.LOSS_MASK]
    outs = module.forward_train(batch)
    values = module.compute_values(batch, embeddings=outs[Columns.EMBEDDINGS])
    # The rewards are the numbers of the rows.
    names = batch[Columns.REWARDS][mask].long().tolist()
    found = dict(
        zip(names, zip(outs[Columns.ACTION_DIST_INPUTS][mask], values[mask], strict=True), strict=True)
    )
    fresh = fresh_starts(rollout)
    for lane in range(2):
        state: Any = None
        for t in range(17):
            if state is None or fresh[t, lane]:
                state = add_row(module.get_initial_state())
            step = {
                Columns.OBS: torch.as_tensor(rollout.columns[Columns.OBS][t, lane])[None, None],
                Columns.STATE_IN: state,
            }
            value = module.compute_values(step)
            walked = module.forward_exploration(step)
            state = walked[Columns.STATE_OUT]
            if rollout.valid[t, lane]:
                inputs, estimate = found[t * 2 + lane]
                torch.testing.assert_close(
                    inputs, walked[Columns.ACTION_DIST_INPUTS][0, 0], rtol=1e-5, atol=1e-6
                )
                torch.testing.assert_close(estimate, value[0, 0], rtol=1e-5, atol=1e-6)
    assert len(found) == rollout.valid.sum()


def add_row(state: dict[str, Any]) -> dict[str, Any]:
    return {k: add_row(v) if isinstance(v, dict) else v.unsqueeze(0) for k, v in state.items()}


def test_padding_changes_neither_loss_nor_gradients() -> None:
    learner = learner_of(vf_share_layers=True)
    batch = learner.make_batches([rollout_of(1, 17, 2)])
    rows = batch["default_policy"]
    mask = rows[Columns.LOSS_MASK]
    assert not mask.all() and abs(float(rows[Columns.ADVANTAGES][mask].mean())) < 1e-5
    losses = []
    for value in (0.0, 9.0):
        for name in (Columns.OBS, Columns.ADVANTAGES, Columns.VALUE_TARGETS, Columns.ACTION_LOGP):
            rows[name][~mask] = value
        loss = learner.compute_losses(fwd_out=learner.module.forward_train(batch), batch=batch)
        gradients = learner.compute_gradients(loss)
        losses.append(
            (float(loss["default_policy"].detach()), [g.clone() for g in gradients.values() if g is not None])
        )
    assert losses[0][0] == pytest.approx(losses[1][0])
    for first, second in zip(losses[0][1], losses[1][1], strict=True):
        torch.testing.assert_close(first, second)


def test_a_module_with_memory_learns_from_minibatches_of_sequences() -> None:
    learner = learner_of(vf_share_layers=False)
    rollouts = [rollout_of(1, 17, 2), rollout_of(2, 9, 2)]
    before = learner.module.get_state()["default_policy"]
    learner.update(rollouts, timesteps={}, num_epochs=2, minibatch_size=8, shuffle_batch_per_epoch=True)
    after = learner.module.get_state()["default_policy"]
    assert all(np.isfinite(array).all() for array in after.values())
    changed = {key for key in after if not np.array_equal(after[key], before[key])}
    assert {"encoder.actor_encoder.lstm.weight_hh_l0", "encoder.critic_encoder.lstm.weight_hh_l0"} <= changed


@pytest.mark.parametrize("shared", [True, False])
def test_states_kept_while_sampling_are_those_of_a_walk(shared: bool) -> None:
    model = {**SMALL, "use_lstm": True, "lstm_cell_size": 5, "max_seq_len": 4, "vf_share_layers": shared}
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=3)
    algorithm = config.rl_module(model_config=model).debugging(seed=2).build_algo()
    try:
        algorithm.env_runner.sample_rollout(7)  # lanes in the middle of their episodes
        rollout = algorithm.env_runner.sample_rollout(61)
        learner = algorithm.learner_group._learner
        kept = learner.make_batches([rollout])["default_policy"]
        assert len(kept[Columns.LOSS_MASK]) > 3 * 61 // 4 and rollout.columns[Columns.TERMINATEDS].any()
        rollout.piece_states = None
        walked = learner.make_batches([rollout])["default_policy"]
    finally:
        algorithm.stop()
    torch.testing.assert_close(kept, walked, rtol=1e-4, atol=1e-5)


def test_actions_at_random_keep_no_states() -> None:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    algorithm = config.rl_module(model_config={**SMALL, "use_lstm": True}).build_algo()
    try:
        assert algorithm.env_runner.sample_rollout(9, random_actions=True).piece_states is None
        assert algorithm.env_runner.sample_rollout(9, explore=False).piece_states is None
    finally:
        algorithm.stop()


@pytest.mark.parametrize("shared", [True, False])
def test_ppo_samples_and_learns_with_an_lstm(shared: bool) -> None:
    model = {
        "fcnet_hiddens": [8],
        "use_lstm": True,
        "lstm_cell_size": 4,
        "max_seq_len": 5,
        "vf_share_layers": shared,
    }
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    config.training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1).rl_module(
        model_config=model
    )
    algorithm = config.build_algo()
    try:
        results = algorithm.train()
        learnt = algorithm.learner_group.get_state()["learner"]["rl_module"]["default_policy"]
        acting = algorithm.get_module().get_state()
        assert sorted(learnt.keys() - acting.keys()) == []
        # Runners carry the memory of both encoders, so they have the newest weights of both.
        stale = {name for name in acting if not np.array_equal(acting[name], learnt[name])}
        assert {name.split(".")[0] for name in stale} <= {"vf"}
    finally:
        algorithm.stop()
    assert np.isfinite(results["learners"]["default_policy"]["total_loss"])
    assert results["learners"]["default_policy"]["num_module_steps_trained"] >= 60


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_one_step_of_a_cell_is_the_step_of_its_layer(kind: str) -> None:
    tokenizer = MLPEncoderConfig(input_dims=[4], hidden_layer_dims=[6])
    config = RecurrentEncoderConfig(
        recurrent_layer_type=kind,
        input_dims=[4],
        hidden_dim=5,
        num_layers=1,
        batch_major=True,
        tokenizer_config=tokenizer,
    )
    encoder = config.build(framework="torch")
    batch = {"obs": torch.randn(3, 1, 4), "state_in": {name: torch.randn(3, 1, 5) for name in ("h", "c")}}
    with torch.no_grad():
        by_cell = encoder(batch)
    by_layer = encoder(batch)  # with gradients the layer itself is called
    torch.testing.assert_close(by_cell["encoder_out"], by_layer["encoder_out"].detach())
    assert by_cell["state_out"].keys() == by_layer["state_out"].keys()
    for name, value in by_cell["state_out"].items():
        torch.testing.assert_close(value, by_layer["state_out"][name].detach())
        assert not torch.equal(value, batch["state_in"][name])
    # A hook on the layer sees every step.
    seen = []
    getattr(encoder, kind).register_forward_hook(lambda *arguments: seen.append(1))
    with torch.no_grad():
        encoder(batch)
    assert seen == [1]


class StatesWhereActionsAreDrawn(DefaultPPOTorchRLModule):
    """Returns no states in training, as modules of users often do."""

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        out = super()._forward_train(batch, **kwargs)
        del out[Columns.STATE_OUT], out[Columns.EMBEDDINGS]
        return out


def test_a_module_that_returns_no_states_in_training_gives_the_same_batch() -> None:
    learner = learner_of(vf_share_layers=False)
    expected = learner.make_batches([rollout_of(1, 17, 2)])["default_policy"]
    learner.module["default_policy"].__class__ = StatesWhereActionsAreDrawn
    found = learner.make_batches([rollout_of(1, 17, 2)])["default_policy"]
    torch.testing.assert_close(found, expected)


class EndsAfterThreeSteps(gym.Env[Any, Any]):
    """Episodes of three steps, so that fragments of three steps end where episodes do."""

    def __init__(self, config: Any = None) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (4,))
        self.action_space = spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.full(4, self.steps / 3, np.float32), 1.0, self.steps == 3, False, {}


@pytest.mark.parametrize("lengths", [(3, 3), (2, 4)])
def test_an_agents_memory_is_the_initial_one_if_a_fragment_ends_with_its_episode(
    lengths: tuple[int, int],
) -> None:
    config = (
        PPOConfig()
        .environment(make_multi_agent(EndsAfterThreeSteps), env_config={"num_agents": 2})
        .env_runners(
            num_env_runners=0,
            env_to_module_connector=lambda env, spaces, device: MeanStdFilter(multi_agent=True),
        )
        .multi_agent(policies={"p"}, policy_mapping_fn=lambda agent, episode, **kwargs: "p")
        .rl_module(model_config={**SMALL, "use_lstm": True, "lstm_cell_size": 4})
    )
    algorithm = config.build_algo()
    try:
        runner = algorithm.env_runner
        found = [runner.sample_rollout(length)["p"] for length in lengths]
    finally:
        algorithm.stop()
    for rollout in found[1]:
        assert rollout.state_in is not None
        begins = len(rollout.valid) == 3  # the others are the rest of an episode
        for network in rollout.state_in.values():
            for value in network.values():
                assert ((value == 0.0).all(axis=-1) == begins).all()


@pytest.mark.parametrize("many", [False, True])
def test_memories_of_two_networks_pass_through_connectors(many: bool) -> None:
    config = (
        PPOConfig()
        .environment(
            make_multi_agent("CartPole-v1") if many else "CartPole-v1",
            env_config={"num_agents": 2} if many else {},
        )
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=2,
            env_to_module_connector=lambda env, spaces, device: MeanStdFilter(multi_agent=many),
        )
        .training(train_batch_size=48, minibatch_size=24, num_epochs=1)
        .rl_module(
            model_config={"use_lstm": True, "vf_share_layers": False, "lstm_cell_size": 4, "fcnet_hiddens": [4], "max_seq_len": 6}
        )
    )  # fmt: skip
    if many:
        config.multi_agent(policies={"p"}, policy_mapping_fn=lambda agent, episode, **kwargs: "p")
    algorithm = config.build_algo()
    # The second fragment continues episodes, with the memory of the policy and that of the value function.
    for _ in range(2):
        result = algorithm.train()
    assert np.isfinite(result["learners"]["p" if many else "default_policy"]["vf_loss"])
    algorithm.stop()
