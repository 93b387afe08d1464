"""Continues after the streaming preprocessing: the loop of the text's train function, without its trainer."""

shard = ds.iterator()
for _ in range(10):
    seen = 0
    for batch in shard.iter_torch_batches(batch_size=64):
        inputs = batch["text"]
        labels = batch["label"]
        assert len(inputs) == len(labels) <= 64
        seen += len(labels)
    assert seen == 150, seen
print("ten epochs of", seen, "rows")
