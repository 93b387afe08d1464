"""Own formulas of distributions against torch.distributions."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import distributions

from skate.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDeterministic,
    TorchDiagGaussian,
    TorchMultiCategorical,
    TorchSquashedGaussian,
)
from skate.rllib.core.models.catalog import Catalog, UnsupportedSpaceException


def same(mine: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


@pytest.fixture(params=range(2), autouse=True)
def seed(request: pytest.FixtureRequest) -> None:
    torch.manual_seed(request.param)


def test_categorical_has_the_figures_of_torch() -> None:
    logits, others = torch.randn(50, 7) * 4, torch.randn(50, 7) * 4
    mine, theirs = TorchCategorical.from_logits(logits), distributions.Categorical(logits=logits)
    drawn = mine.sample()
    same(mine.logp(drawn), theirs.log_prob(drawn))
    same(mine.entropy(), theirs.entropy())
    same(
        mine.kl(TorchCategorical.from_logits(others)),
        distributions.kl_divergence(theirs, distributions.Categorical(logits=others)),
    )
    assert torch.equal(mine.to_deterministic().sample(), logits.argmax(-1))
    of_probs = TorchCategorical(probs=theirs.probs)
    same(of_probs.entropy(), theirs.entropy())
    same(of_probs.logp(drawn), theirs.log_prob(drawn))


def test_categorical_draws_by_its_probabilities() -> None:
    probs = torch.tensor([0.1, 0.2, 0.7])
    drawn = TorchCategorical(logits=probs.log()).sample(sample_shape=(20_000,))
    shares = torch.bincount(drawn, minlength=3) / len(drawn)
    assert (shares - probs).abs().max() < 0.02
    first, second = (
        TorchCategorical(logits=probs.log()).sample(generator=torch.Generator().manual_seed(5)) for _ in "ab"
    )
    assert first == second


def test_a_masked_action_is_never_drawn_and_leaves_all_figures_finite() -> None:
    logits = torch.randn(200, 4)
    logits[:, 2] = float("-inf")
    policy = TorchCategorical.from_logits(logits)
    assert not (policy.sample() == 2).any()
    assert policy.entropy().isfinite().all()
    assert policy.kl(TorchCategorical.from_logits(torch.randn(200, 4))).isfinite().all()


def test_gaussian_has_the_figures_of_torch() -> None:
    logits, others = torch.randn(50, 6), torch.randn(50, 6)
    mine, other = TorchDiagGaussian.from_logits(logits), TorchDiagGaussian.from_logits(others)
    theirs, their_other = (distributions.Normal(part[:, :3], part[:, 3:].exp()) for part in (logits, others))
    drawn = mine.sample()
    same(mine.logp(drawn), theirs.log_prob(drawn).sum(-1))
    same(mine.entropy(), theirs.entropy().sum(-1))
    same(mine.kl(other), distributions.kl_divergence(theirs, their_other).sum(-1))
    many = mine.sample(sample_shape=(20_000,))
    assert ((many.mean(0) - theirs.mean) / theirs.stddev).abs().max() < 0.05
    assert (many.std(0) / theirs.stddev - 1).abs().max() < 0.05


def test_gradients_flow_through_reparameterized_draws_only() -> None:
    logits = torch.randn(4, 6, requires_grad=True)
    assert TorchDiagGaussian.from_logits(logits).rsample().requires_grad
    assert not TorchDiagGaussian.from_logits(logits).sample().requires_grad
    assert TorchCategorical.from_logits(logits).rsample().requires_grad
    assert not TorchSquashedGaussian.from_logits(logits).sample_and_logp()[1].requires_grad


def test_squashed_gaussian_has_the_figures_of_torch() -> None:
    logits = torch.randn(50, 6, dtype=torch.float64) * 0.3
    mine = TorchSquashedGaussian.from_logits(logits, low=-2.0, high=3.0)
    normal = distributions.Normal(logits[:, :3], logits[:, 3:].exp())
    # The likelihood is taken per unit of (-1, 1), whatever the bounds are.
    unit = distributions.TransformedDistribution(normal, [distributions.TanhTransform(cache_size=1)])
    drawn, logp = mine.rsample_and_logp()
    assert drawn.min() >= -2 and drawn.max() <= 3
    back = (drawn + 2.0) / 5.0 * 2.0 - 1.0
    torch.testing.assert_close(logp, unit.log_prob(back).sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mine.logp(drawn), logp, rtol=1e-4, atol=1e-4)
    best = mine.to_deterministic().sample()
    torch.testing.assert_close(best, torch.tanh(logits[:, :3]) * 2.5 + 0.5)


def test_the_likelihood_of_a_saturated_squashed_action_is_finite() -> None:
    logits = torch.tensor([[30.0, -30.0, 0.0, 0.0]])
    drawn, logp = TorchSquashedGaussian.from_logits(logits).sample_and_logp()
    assert logp.isfinite().all() and drawn.abs().max() <= 1.0


def test_multi_categorical_sums_its_parts() -> None:
    kind = Catalog._get_dist_cls_from_action_space(spaces.MultiDiscrete([2, 5]))
    assert kind.required_input_dim(spaces.MultiDiscrete([2, 5])) == 7
    logits = torch.randn(30, 7)
    mine = kind.from_logits(logits)
    assert isinstance(mine, TorchMultiCategorical)
    drawn = mine.sample()
    assert drawn.shape == (30, 2)
    parts = [distributions.Categorical(logits=part) for part in logits.split([2, 5], -1)]
    same(mine.logp(drawn), sum(part.log_prob(drawn[:, i]) for i, part in enumerate(parts)))
    same(mine.entropy(), sum(part.entropy() for part in parts))
    best = torch.stack([part.logits.argmax(-1) for part in parts], -1)
    assert torch.equal(mine.to_deterministic().sample(), best)


def test_nested_action_spaces_have_one_distribution_per_part() -> None:
    space = spaces.Dict(
        {"b": spaces.Tuple([spaces.Discrete(3), spaces.MultiDiscrete([2, 2])]), "a": spaces.Box(-1, 1, (2,))}
    )
    kind = Catalog._get_dist_cls_from_action_space(space)
    assert kind.required_input_dim(space) == 4 + 3 + 4
    policy = kind.from_logits(torch.randn(10, 11))
    drawn = policy.sample()
    assert drawn["a"].shape == (10, 2) and drawn["b"][0].shape == (10,) and drawn["b"][1].shape == (10, 2)
    flat = torch.cat([drawn["a"], drawn["b"][0].unsqueeze(-1), drawn["b"][1]], dim=-1)
    same(policy.logp(drawn), policy.logp(flat))
    same(policy.kl(policy), torch.zeros(10))
    assert policy.entropy().shape == (10,)
    assert policy.to_deterministic().sample()["b"][1].shape == (10, 2)


def test_spaces_without_a_distribution_are_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedSpaceException, match="reshape"):
        Catalog._get_dist_cls_from_action_space(spaces.Box(-1, 1, (2, 2)))
    with pytest.raises(ValueError, match="MultiDiscrete"):
        Catalog._get_dist_cls_from_action_space(spaces.Box(0, 5, (2,), int))
    with pytest.raises(NotImplementedError, match="action_dist_cls"):
        Catalog._get_dist_cls_from_action_space(spaces.MultiBinary(2))
    with pytest.raises(ValueError, match="exactly one"):
        TorchCategorical()
    with pytest.raises(RuntimeError, match="no entropy"):
        TorchDeterministic(torch.zeros(2)).entropy()
