import ray

ds = ray.data.read_parquet("s3://my-bucket/training-data/")

ds = ds.map(lambda row: {"text": row["text"].lower(), "label": row["label"]})
ds = ds.filter(lambda row: len(row["text"]) > 10)

# Stream directly to training workers
trainer = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=4, use_gpu=True),
    datasets={"train": ds},
)
