"""The layers of Llama and its relatives in few calls of torch, because each call costs as much as a small product."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention

from skate.llm.embedded.cache import SlotCache
from skate.llm.embedded.packed_linear import PackedLinear

_log = logging.getLogger("skate.llm")
#: The classes of transformers whose layers are those of `Decoder`.
_CLASSES = frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
#: The kinds of rotary embeddings whose angles depend on nothing but the position.
_ROTARY = frozenset({"default", "linear", "llama3", "yarn"})
#: oneDNN computes four rows faster than one or two.
_ROWS_MIN = 4

#: Added to the scores of attention: one for all layers, or one for each kind of layer.
Mask = torch.Tensor | dict[str, torch.Tensor] | None


class Decoder:
    """A packed model of transformers, without its modules' `forward`: the same sums in other kernels.

    Use `of`, which compares the results with those of transformers first.
    """

    def __init__(self, model: torch.nn.Module, limit: int) -> None:
        config: Any = model.config
        inner: Any = model.model
        self._embedding: torch.Tensor = inner.embed_tokens.weight
        self._layers = [
            _Layer(each, config.rms_norm_eps) for each in inner.layers[: config.num_hidden_layers]
        ]
        self._kinds = list(getattr(config, "layer_types", None) or [""] * len(self._layers))
        self._norm: torch.Tensor = inner.norm.weight
        self._epsilon = float(config.rms_norm_eps)
        head: Any = model.lm_head
        self._head: PackedLinear = head
        with torch.inference_mode():
            cos, sin = inner.rotary_emb(self._embedding[:1], torch.arange(limit).unsqueeze(0))
        half = cos.shape[-1] // 2
        # Signs belong to the sines, so that one call turns the halves of a head around.
        self._cos, self._sin = cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], -1)

    @classmethod
    def of(cls, model: torch.nn.Module, limit: int) -> Decoder | None:
        """Return the decoder of a packed model; None if its layers are of another kind."""
        kind = type(model)
        if kind.__name__ not in _CLASSES or not kind.__module__.startswith("transformers."):
            return None
        config: Any = model.config
        rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
        if (
            rotary not in _ROTARY
            or config.hidden_act != "silu"
            or not isinstance(model.lm_head, PackedLinear)
        ):
            return None
        try:
            made = cls(model, limit)
            if made._agrees(model):
                return made
        # Another version of transformers may have other modules, and then its own `forward` is used.
        except Exception as error:
            _log.info("the model runs by transformers' own forward: %s: %s", type(error).__name__, error)
        return None

    def _agrees(self, model: torch.nn.Module) -> bool:
        """Compare the logits of a few tokens with those of transformers."""
        ids = torch.arange(5).unsqueeze(0) % self._embedding.shape[0]
        with torch.inference_mode():
            wanted = model(input_ids=ids, use_cache=False).logits.float()
            found = self.logits(self.hidden(ids, torch.arange(5).unsqueeze(0), None, None)).float()
        far = float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-6))
        if far < (1e-3 if self._embedding.dtype == torch.float32 else 0.1):
            return True
        _log.warning(
            "the model runs by transformers' own forward, because the fast one differs by %.2g of the largest logit",
            far,
        )
        return False

    def hidden(
        self, ids: torch.Tensor, at: torch.Tensor, cache: SlotCache | None, mask: Mask
    ) -> torch.Tensor:
        """Compute the normalized states behind the last layer, [rows, tokens, width].

        Args:
            ids, at: the tokens and their positions, [rows, tokens].
            cache: stores the keys and says which ones are read; None for those of the call alone.
            mask: added to the scores, or one for each kind of layer; None if each token of the call sees all up to it.
        """
        rows, tokens = ids.shape
        # A single token of each row sees all keys that are read.
        causal = mask is None and tokens > 1
        if tokens == 1 and rows < _ROWS_MIN:
            more = _ROWS_MIN - rows
            ids = torch.nn.functional.pad(ids, (0, 0, 0, more))
        states = embedding(ids, self._embedding).flatten(0, 1)
        cos, sin = embedding(at, self._cos).unsqueeze(1), embedding(at, self._sin).unsqueeze(1)
        size = states.shape[-1:]
        for number, (layer, kind) in enumerate(zip(self._layers, self._kinds, strict=True)):
            normed = rms_norm(states, size, layer.norm, self._epsilon)
            query, key, value = layer.project(normed, rows, tokens, cos, sin)
            if cache is not None:
                key, value = cache.update(key, value, number)
            seen = scaled_dot_product_attention(
                query,
                key,
                value,
                mask[kind] if isinstance(mask, dict) else mask,
                is_causal=causal,
                enable_gqa=layer.grouped,
            )
            states = layer.rest(seen.transpose(1, 2).reshape(rows * tokens, -1), states, size, self._epsilon)
        return rms_norm(states[: rows * tokens], size, self._norm, self._epsilon).view(rows, tokens, -1)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of states, [..., width] to [..., vocabulary]."""
        return self._head.forward(hidden)


class _Layer:
    """The weights of one layer."""

    def __init__(self, layer: torch.nn.Module, epsilon: float) -> None:
        attention: Any = layer.self_attn
        mlp: Any = layer.mlp
        self._query, self._key, self._value = attention.q_proj, attention.k_proj, attention.v_proj
        self._out, self._gate, self._up, self._down = (
            attention.o_proj,
            mlp.gate_proj,
            mlp.up_proj,
            mlp.down_proj,
        )
        for each in (self._query, self._key, self._value, self._out, self._gate, self._up, self._down):
            if not isinstance(each, PackedLinear):
                raise TypeError(f"a {type(each).__name__} is no packed layer")
        before: Any = layer.input_layernorm
        after: Any = layer.post_attention_layernorm
        self.norm: torch.Tensor = before.weight
        self._norm_after: torch.Tensor = after.weight
        self._width = int(attention.head_dim)
        self._heads = self._query.out_features // self._width
        self._groups = self._key.out_features // self._width
        self.grouped = self._heads != self._groups
        #: Qwen3 normalizes each head of queries and keys.
        self._norms = [
            each.weight
            for each in (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
            if each is not None
        ]
        self._epsilon = epsilon

    def project(
        self, states: torch.Tensor, rows: int, tokens: int, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values, [rows, heads, tokens, width], the first two turned by their positions."""
        count = rows * tokens
        query, key, value = self._query(states), self._key(states), self._value(states)
        if self._norms:
            query = rms_norm(query.view(-1, self._width), (self._width,), self._norms[0], self._epsilon)
            key = rms_norm(key.view(-1, self._width), (self._width,), self._norms[1], self._epsilon)
            query, key = query.view(-1, self._heads * self._width), key.view(-1, self._groups * self._width)
        both = torch.cat([query[:count], key[:count]], -1)
        both = both.view(rows, tokens, self._heads + self._groups, self._width).transpose(1, 2)
        both = torch.addcmul(both * cos, both.roll(self._width // 2, -1), sin)
        values = value[:count].view(rows, tokens, self._groups, self._width).transpose(1, 2)
        return both[:, : self._heads], both[:, self._heads :], values

    def rest(
        self, seen: torch.Tensor, states: torch.Tensor, size: torch.Size, epsilon: float
    ) -> torch.Tensor:
        """Return the states behind the layer, from what its tokens have seen and the states before it."""
        if seen.shape[0] < states.shape[0]:
            seen = torch.nn.functional.pad(seen, (0, 0, 0, states.shape[0] - seen.shape[0]))
        states = self._out.combined(seen, states, "add")
        normed = rms_norm(states, size, self._norm_after, epsilon)
        inside = self._up.combined(normed, self._gate.then(normed, "swish"), "mul")
        result: torch.Tensor = self._down.combined(inside, states, "add")
        return result
