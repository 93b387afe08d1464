# Prepare Ray Datasets
hf_datasets = load_dataset("glue", "mrpc")

# Convert HuggingFace datasets to Ray datasets using from_items
ray_datasets = {
    "train": ray.data.from_items([dict(item) for item in hf_datasets["train"]]),
    "validation": ray.data.from_items([dict(item) for item in hf_datasets["validation"]]),
}
