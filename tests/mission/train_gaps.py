"""Substitutes for parts that the documents leave out, or that need a GPU."""

from __future__ import annotations

# T.5.3 says that its loop is that of T.5.2, and that the config of DeepSpeed is passed directly.
_LOOP = """
    import torch
    train_loader = ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(3):
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
        ray.train.report({"epoch": epoch, "loss": total_loss, "model": type(model).__name__})
"""
_T_5_3 = {
    "    # ... training loop identical to T.5.2 ...\n": _LOOP,
    "    # Pass DeepSpeed config directly\n": '    datasets={"train": ray_dataset},\n',
}
_PIPELINE = {
    "    # (lines 87 to 98 are not on the slides)\n": """
    micro_batch_size = deepspeed_config["train_micro_batch_size_per_gpu"]
    gradient_accumulation_steps = deepspeed_config["gradient_accumulation_steps"]
    # One pipeline takes all workers, so they share every batch.
    train_batch_size = micro_batch_size * gradient_accumulation_steps * (world_size // num_stages)
""",
    "    # (lines 111 to 196 are not on the slides)\n": """
    torch.manual_seed(0)
    micro = [(torch.randn(micro_batch_size, 128), torch.randint(10, (micro_batch_size,))) for _ in range(8)]
    for epoch in range(config["epochs"]):
        for step in range(0, len(micro), gradient_accumulation_steps):
            loss = engine.train_batch(data_iter=iter(micro[step : step + gradient_accumulation_steps]))
        ray.train.report({"loss": loss.item(), "epoch": epoch, "learning_rate": 1e-3})
""",
}
GAPS: dict[str, dict[str, str]] = {
    "deepspeed": _T_5_3,
    "deepspeed, passed directly": {
        **_T_5_3,
        "    # Pass DeepSpeed config directly\n": '    datasets={"train": ray_dataset}, deepspeed_config=deepspeed_config,\n',
    },
    "zero3 on CPUs": {'"fp16": {"enabled": True}': '"fp16": {"enabled": False}'},
    "zero3 on CPUs, Adam of torch": {
        '"fp16": {"enabled": True}': '"fp16": {"enabled": False}',
        '"lr": 2e-5,': '"lr": 2e-5, "torch_adam": True,',
    },
    "pipeline": _PIPELINE,
    "pipeline on CPUs": {
        **_PIPELINE,
        "    torch.cuda.set_device(": "    if torch.cuda.is_available(): torch.cuda.set_device(",
        '"params": {"lr": 1e-3, "weight_decay": 0.01},': '"params": {"lr": 1e-3, "weight_decay": 0.01, "torch_adam": True},',
    },
}
