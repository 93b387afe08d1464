import ray.train
from ray.train.torch import TorchTrainer
from ray.train import ScalingConfig, RunConfig, CheckpointConfig
def train_fn(config):
    """Standard PyTorch training function, run on each worker."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from torch.utils.data import DataLoader
    # Ray Train automatically sets the correct local rank and device
    model = AutoModelForCausalLM.from_pretrained(config["model_name"])
    model = ray.train.torch.prepare_model(model) # Wraps in DDP
    tokenizer = AutoTokenizer.from_pretrained(config["model_name"])
    # Load data through Ray Data (see T.5.4)
    train_ds = ray.train.get_dataset_shard("train")
    train_loader = train_ds.iter_torch_batches(batch_size=config["batch_size"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    for epoch in range(config["epochs"]):
        total_loss = 0
        for batch in train_loader:
            input_ids = batch["input_ids"].to(ray.train.torch.get_device())
            labels = batch["labels"].to(ray.train.torch.get_device())
            outputs = model(input_ids=input_ids, labels=labels)
            loss = outputs.loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total_loss += loss.item()
        # Report metrics to Ray Train
        ray.train.report({"epoch": epoch, "loss": total_loss})
# Configure distributed training
trainer = TorchTrainer(
    train_loop_per_worker=train_fn,
    train_loop_config={
        "model_name": "meta-llama/Llama-3.1-8B",
        "batch_size": 4,
        "lr": 2e-5,
        "epochs": 3,
    },
    scaling_config=ScalingConfig(
        num_workers=4, # 4 GPU workers
        use_gpu=True,
        resources_per_worker={"GPU": 1, "CPU": 8},
    ),
    run_config=RunConfig(
        name="llama-sft-distributed",
        checkpoint_config=CheckpointConfig(num_to_keep=2),
    ),
    datasets={"train": ray_dataset}, # Ray Data dataset
)
result = trainer.fit()
print(f"Final loss: {result.metrics['loss']:.4f}")
