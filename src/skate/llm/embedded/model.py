"""A transformers model for batches: computes a part of a prompt, or one token of each answer, and returns logits."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import psutil
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from skate.llm.adapter_folder import AdapterFolder
from skate.llm.embedded.adapters import Adapters
from skate.llm.embedded.answer import Answer
from skate.llm.embedded.arguments import EmbeddedArguments
from skate.llm.embedded.cache import SlotCache
from skate.llm.embedded.decoder import Decoder, Mask
from skate.llm.embedded.packed_linear import pack
from skate.llm.engine import EngineArgs

#: The context of a model whose config has none, and the most used unless max_model_len is set.
_CONTEXT_MAX = 4096
#: The most ended answers whose keys are kept for prompts with the same start.
_KEPT_MAX = 16
_DTYPES = {
    "auto": torch.float32,
    "float32": torch.float32,
    "float": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
}


class Model:
    """The weights, the cache of keys and values, and the adapters. Used by one thread only."""

    def __init__(self, args: EngineArgs, given: EmbeddedArguments, folder: AdapterFolder) -> None:
        self.given = given
        self.embeds = args.task == "embed"
        if args.task not in ("generate", "embed"):
            raise ValueError(
                f"task {args.task!r}: the embedded engine supports generate and embed; use vLLM for others"
            )
        options: dict[str, Any] = {
            "trust_remote_code": given.trust_remote_code,
            "local_files_only": os.path.isdir(args.model),
        }
        self.config: Any = AutoConfig.from_pretrained(args.model, **options)
        kind: Any = AutoModel if self.embeds else AutoModelForCausalLM
        self.model: Any = kind.from_pretrained(
            args.model, dtype=_DTYPES[given.dtype], attn_implementation="sdpa", **options
        ).eval()
        self.text_config: Any = self.config.get_text_config()
        self.vocabulary = int(self.text_config.vocab_size)
        self.limit = self._context(given.max_model_len)
        self.end_tokens = self._ends()
        self.parameters = sum(each.numel() for each in self.model.parameters())
        packed = pack(self.model, self.model.dtype)
        #: Runs models of Llama's kind; others, and rows with adapters, run by transformers' own forward.
        self._decoder = Decoder.of(self.model, self.limit) if packed and not self.embeds else None
        self.adapters = Adapters(self.model, folder, args.max_loras)
        # transformers has renamed the argument.
        names = inspect.signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self._masks = _MaskMaker(self.text_config, _DTYPES[given.dtype])
        if not self.embeds:
            places, rows = self._places()
            self.cache = SlotCache(self.text_config.num_hidden_layers, places, self.limit, rows)

    def _context(self, requested: int | None) -> int:
        found = getattr(self.text_config, "max_position_embeddings", None) or getattr(
            self.text_config, "n_positions", None
        )
        most = int(found) if found else _CONTEXT_MAX
        if requested is not None and found and requested > most:
            raise ValueError(f"max_model_len={requested} is above the model's limit of {most} tokens")
        return requested or min(most, _CONTEXT_MAX)

    def _ends(self) -> frozenset[int]:
        generation = getattr(self.model, "generation_config", None)
        found = getattr(generation, "eos_token_id", None)
        if found is None:
            found = self.text_config.eos_token_id
        return frozenset(found if isinstance(found, list) else [] if found is None else [found])

    def _places(self) -> tuple[int, int]:
        """Return the number of slots, each as long as the context, and of extra rows for ended answers."""
        config = self.text_config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        bytes_each = torch.finfo(_DTYPES[self.given.dtype]).bits // 8
        one = 2 * config.num_hidden_layers * heads * width * bytes_each * self.limit
        allowed = self.given.kv_cache_memory_bytes or psutil.virtual_memory().total // 4
        places = min(self.given.max_num_seqs, allowed // one)
        if places < 1:
            raise ValueError(
                f"the keys and values of one answer of {self.limit} tokens take {one:,} bytes, above "
                f"kv_cache_memory_bytes={allowed:,}; use a smaller max_model_len or more memory"
            )
        kept = min(_KEPT_MAX, allowed // one - places) if self.given.enable_prefix_caching else 0
        return int(places), int(kept)

    def _run(self, ids: torch.Tensor, adapters: Sequence[str | None], **more: Any) -> Any:
        return self.adapters.model(input_ids=ids, **self.adapters.rows(adapters), **more)

    def _logits(
        self,
        ids: torch.Tensor,
        adapters: Sequence[str | None],
        at: torch.Tensor,
        mask: Mask,
        places: tuple[Sequence[int], Sequence[int]] | None,
    ) -> torch.Tensor | None:
        """Return the logits after some tokens, [tokens, vocabulary]; `places` has their rows and columns, None for none."""
        if self._decoder is not None and not any(adapters):
            hidden = self._decoder.hidden(ids, at, self.cache, mask)
            if places is None:
                return None
            found = (
                hidden[:, 0]
                if ids.shape[1] == 1
                else hidden[torch.tensor(places[0]), torch.tensor(places[1])]
            )
            return self._decoder.logits(found).float()
        rows, columns = places or ([0], [0])
        kept = {each: number for number, each in enumerate(sorted(set(columns)))}
        out = self._run(
            ids,
            adapters,
            attention_mask=mask,
            position_ids=at,
            use_cache=True,
            logits_to_keep=torch.tensor(list(kept)),
            **{self._cache_name: self.cache},
        )
        if places is None:
            return None
        logits: torch.Tensor = out.logits[torch.tensor(rows), [kept[each] for each in columns]]
        return logits.float()

    def prefill(self, group: Sequence[Answer], size: int, every: bool = False) -> torch.Tensor | None:
        """Compute the next `size` tokens of one prompt, or several prompts of up to `size` tokens from their start.

        Returns:
            The logits after the last token of each prompt, [answers, vocabulary]; None if tokens of a prompt remain.
            With `every`, those after each of the `size` tokens of the only prompt, [size, vocabulary].
        """
        first = group[0]
        start = first.cached
        assert len(group) == 1 or all(each.cached == 0 for each in group)
        self.cache.reserve(min(start + size, self.limit))
        parts = [list(each.start[start : start + size]) for each in group]
        # Padding comes last: no token attends to later ones, and the answer's keys overwrite those of the padding.
        ids = torch.tensor([part + [0] * (size - len(part)) for part in parts])
        at = torch.arange(start, start + size).expand(len(group), -1)
        slots = [each.slot for each in group]
        if start == 0:
            self.cache.write_to(slots, at, None)
            mask = self._masks.start(size)
        else:
            self.cache.write_to(slots, at, (first.slot, first.slot + 1, start + size))
            mask = self._masks.behind(start, size)
        ends = start + size >= len(first.start)
        places: tuple[Sequence[int], Sequence[int]] | None = None
        if every:
            places = [0] * size, range(size)
        elif ends:
            places = range(len(parts)), [len(part) - 1 for part in parts]
        logits = self._logits(ids, [each.adapter for each in group], at, mask, places)
        for each, part in zip(group, parts, strict=True):
            each.cached += len(part)
        return logits

    def decode(self, holders: Sequence[Answer | None], running: Sequence[Answer]) -> torch.Tensor:
        """Compute one more token for each running answer.

        Args:
            holders: all slots up to the highest in use. Those without a running answer are computed as well,
                because that is cheaper than gathering the others; their keys are overwritten before they are read.
            running: the answers whose logits are needed; they have a token that is not yet cached.

        Returns:
            [running, vocabulary].
        """
        wanted = set(map(id, running))
        tokens, positions = [], []
        for each in holders:
            tokens.append([each.tokens[-1] if each is not None and id(each) in wanted else 0])
            positions.append(each.cached if each is not None else 0)
        length = max(each.cached for each in running) + 1
        self.cache.reserve(min(max(max(positions) + 1, length), self.limit))
        at = torch.tensor(positions).unsqueeze(1)
        self.cache.write_to(range(len(holders)), at, (0, len(holders), length))
        logits = self._logits(
            torch.tensor(tokens),
            [None if each is None else each.adapter for each in holders],
            at,
            self._masks.one(positions, at, length),
            (range(len(holders)), [0] * len(holders)),
        )
        assert logits is not None
        for each in running:
            each.cached += 1
        if len(running) < len(holders):
            logits = logits[[each.slot for each in running]]
        return logits

    def embed(self, prompts: Sequence[Sequence[int]], adapters: Sequence[str | None]) -> torch.Tensor:
        """Return the mean of the last layer over each prompt's tokens, as vectors of length 1."""
        size = max(map(len, prompts))
        ids = torch.tensor([[*each, *[0] * (size - len(each))] for each in prompts])
        mask = torch.tensor([[1] * len(each) + [0] * (size - len(each)) for each in prompts])
        more = {} if self.embeds else {"use_cache": False, "output_hidden_states": True, "logits_to_keep": 1}
        out = self._run(ids, adapters, attention_mask=mask, **more)
        hidden = out.last_hidden_state if self.embeds else out.hidden_states[-1]
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        vectors: torch.Tensor = torch.nn.functional.normalize(mean.float(), dim=-1)
        return vectors


class _MaskMaker:
    """Creates attention masks: a token attends to all positions up to its own, or to a window of them."""

    def __init__(self, config: Any, dtype: torch.dtype) -> None:
        self._least = torch.finfo(dtype).min
        self._dtype = dtype
        kinds = list(dict.fromkeys(getattr(config, "layer_types", None) or ["full_attention"]))
        window = getattr(config, "sliding_window", None)
        if not getattr(config, "use_sliding_window", True):
            window = None
        if window is not None and getattr(config, "layer_types", None) is None:
            kinds = ["sliding_attention"]
        strange = [kind for kind in kinds if kind not in ("full_attention", "sliding_attention")]
        if strange:
            raise ValueError(
                f"the embedded engine does not support {', '.join(strange)}, which this model's layers use; use vLLM on a GPU"
            )
        self._kinds = kinds
        self._window = window
        # The model's own causal mask suffices except for windows.
        self._own = window is not None and "sliding_attention" in kinds

    def start(self, size: int) -> Any:
        if not self._own:
            return None
        return self._made(torch.arange(size).unsqueeze(1).unsqueeze(0), size)

    def behind(self, start: int, size: int) -> Any:
        return self._made(torch.arange(start, start + size).unsqueeze(1).unsqueeze(0), start + size)

    def one(self, positions: Sequence[int], at: torch.Tensor, length: int) -> Any:
        if not self._own and all(each == length - 1 for each in positions):
            return None
        return self._made(at.unsqueeze(1), length)

    def _made(self, at: torch.Tensor, length: int) -> Any:
        """`at` has the position of each token, [rows, tokens, 1]."""
        columns = torch.arange(length)
        sees = columns <= at
        if not self._own:
            return self._filled(sees)
        near = sees & (columns > at - int(self._window or 0))
        # The window of an empty row may be empty, but its result must not be NaN, so it attends to one position.
        near[..., 0] |= ~near.any(-1)
        made = {"full_attention": self._filled(sees), "sliding_attention": self._filled(near)}
        return made if len(self._kinds) > 1 else made[self._kinds[0]]

    def _filled(self, sees: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(sees.shape, dtype=self._dtype).masked_fill_(~sees, self._least)
        return mask.unsqueeze(1)
