"""The fast layers give the answers of transformers', for each kind of model that they run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import AutoConfig

from skate.llm import EngineArgs
from skate.llm.embedded import decoder as decoders
from skate.llm.embedded.cache import SlotCache
from skate.llm.embedded.decoder import Decoder
from skate.llm.embedded.engine import EmbeddedEngine
from skate.llm.embedded.packed_linear import PackedLinear, can_pack, pack

if not can_pack(torch.float32):  # pragma: no cover
    pytest.skip("this torch has no packed layers", allow_module_level=True)

SHAPE: dict[str, Any] = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with bias and all heads": (
        "llama",
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4},
    ),
    "llama with scaled positions": ("llama", {"rope_parameters": LLAMA3}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("qwen3", {"head_dim": 16}),
}


def made(kind: str, more: dict[str, Any]) -> Any:
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SHAPE, **more})).eval()
    with torch.no_grad():  # norms and biases are ones and zeros at first
        for each in model.parameters():
            if each.dim() == 1:
                each.add_(torch.randn_like(each) * 0.2)
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_and_single_tokens_have_the_logits_of_transformers(kind: str) -> None:
    model = made(*KINDS[kind])
    ids = torch.randint(0, 90, (3, 12))
    with torch.inference_mode():
        wanted = model(input_ids=ids, use_cache=False).logits
    assert pack(model, torch.float32)
    fast = Decoder.of(model, 32)
    assert fast is not None
    cache = SlotCache(2, 5, 32)
    with torch.inference_mode():
        # Two slots take their prompts together, the third in two parts, and then all continue token by token.
        at = torch.arange(8).expand(2, -1)
        cache.write_to([0, 1], at, None)
        found = [fast.logits(fast.hidden(ids[:2, :8], at, cache, None))]
        assert torch.allclose(found[0], wanted[:2, :8], atol=1e-4)
        for start, end in ((0, 3), (3, 8)):
            at = torch.arange(start, end).unsqueeze(0)
            cache.write_to([2], at, (2, 3, end) if start else None)
            sees = torch.arange(end) <= at.unsqueeze(-1)
            mask = torch.zeros(sees.shape).masked_fill_(~sees, -1e30).unsqueeze(1) if start else None
            logits = fast.logits(fast.hidden(ids[2:, start:end], at, cache, mask))
            assert torch.allclose(logits, wanted[2:, start:end], atol=1e-4)
        for place in range(8, 12):
            at = torch.full((3, 1), place)
            cache.write_to(range(3), at, (0, 3, place + 1))
            logits = fast.logits(fast.hidden(ids[:, place : place + 1], at, cache, None))
            assert torch.allclose(logits, wanted[:, place : place + 1], atol=1e-4)


def test_other_models_are_left_to_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = made("llama", {})
    assert Decoder.of(model, 32) is None, "it is not packed"
    assert pack(model, torch.float32)
    other = made("gpt2", {"n_embd": 32, "n_head": 4, "n_layer": 2})
    pack(other, torch.float32)
    assert Decoder.of(other, 32) is None
    strange = made("llama", {"hidden_act": "gelu"})
    pack(strange, torch.float32)
    assert Decoder.of(strange, 32) is None
    # A version of transformers with other sums is noticed by its logits.
    monkeypatch.setattr(decoders, "rms_norm", lambda states, *_: states)
    assert Decoder.of(model, 32) is None


def test_packed_layers_give_the_results_of_plain_ones() -> None:
    plain = torch.nn.Linear(40, 24)
    with torch.inference_mode():
        packed = PackedLinear(plain)
        for rows in (1, 2, 5, 40):
            x = torch.randn(rows, 40)
            other = torch.randn(rows, 24)
            assert torch.allclose(packed(x), plain(x), atol=1e-5)
            assert torch.allclose(packed.combined(x, other, "add"), plain(x) + other, atol=1e-5)
    model = made("qwen2", {"tie_word_embeddings": True})
    assert pack(model, torch.float32)
    assert model.model.embed_tokens.weight.shape == (90, 32), "the embedding keeps what it shared"
    assert not [each for each in model.modules() if type(each) is torch.nn.Linear]


def test_the_engine_runs_its_models_by_the_fast_layers(model_folder: Path) -> None:
    made = EmbeddedEngine(EngineArgs(str(model_folder)))
    asyncio.run(made.start())
    try:
        assert made._model._decoder is not None
    finally:
        asyncio.run(made.stop())
