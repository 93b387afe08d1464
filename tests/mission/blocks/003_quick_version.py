import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

def train_func():
    import torch
    import ray.train.torch

    model = torch.nn.Linear(10, 1)
    model = ray.train.torch.prepare_model(model)

    for epoch in range(5):
        loss = torch.tensor(1.0)  # your real training step here
        ray.train.report({"loss": loss.item(), "epoch": epoch})

trainer = TorchTrainer(
    train_func,
    scaling_config=ScalingConfig(num_workers=4, use_gpu=True),
)
result = trainer.fit()
print(f"Final loss: {result.metrics['loss']}")
