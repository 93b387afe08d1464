"""Continues after the streaming pipeline: every row arrives, with its two-dimensional columns as tensors."""

import torch

assert batch["input_ids"].shape == (8, 512), batch["input_ids"].shape
assert batch["attention_mask"].dtype == torch.int64, batch["attention_mask"].dtype
rows = sum(len(each["input_ids"]) for each in tokenized_ds.iter_torch_batches(batch_size=8))
assert rows == ds.count() == 300, rows
first = tokenized_ds.take(1)[0]
assert first["instruction"].startswith("Explain") and first["input_ids"].shape == (512,)
print("all rows arrived with their tokens")
