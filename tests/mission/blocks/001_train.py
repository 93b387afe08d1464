import ray
from ray.train.torch import TorchTrainer

# Assume train_loop_per_worker is our training function
# scaling_config defines distributed resources, e.g., 4 workers with GPUs
trainer = TorchTrainer(
    train_loop_per_worker,
    scaling_config=ray.train.ScalingConfig(num_workers=4, use_gpu=True)
)

# Launch distributed training
result = trainer.fit()
