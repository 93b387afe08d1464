import ray.data
# Read a large dataset in streaming fashion
ds = ray.data.read_parquet("s3://bucket/delta/instruction_pairs/")
# Apply preprocessing as a streaming transformation
def tokenize_batch(batch, tokenizer_name="meta-llama/Llama-3.1-8B"):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_name)
    encodings = tokenizer(
        batch["instruction"].tolist(),
        padding="max_length",
        truncation=True,
        max_length=512,
        return_tensors="np",
    )
    batch["input_ids"] = encodings["input_ids"]
    batch["attention_mask"] = encodings["attention_mask"]
    return batch
# Map runs in parallel across the cluster
tokenized_ds = ds.map_batches(
    tokenize_batch,
    batch_format="pandas",
    batch_size=256,
    num_cpus=2, # CPU resources per map task
)
# Stream directly into training (no materialization)
for batch in tokenized_ds.iter_torch_batches(batch_size=8):
    print(batch["input_ids"].shape)
    break # Just demonstrating the interface
