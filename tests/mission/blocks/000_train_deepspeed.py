from ray.train.torch import TorchTrainer
from ray.train import ScalingConfig
# DeepSpeed ZeRO Stage 3 configuration
deepspeed_config = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "contiguous_gradients": True,
    },
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
}
def train_fn_deepspeed(config):
    import deepspeed
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(
        config["model_name"], torch_dtype="auto"
    )
    # Ray Train + DeepSpeed: model is wrapped automatically
    model = ray.train.torch.prepare_model(model)
    # ... training loop identical to T.5.2 ...
trainer = TorchTrainer(
    train_loop_per_worker=train_fn_deepspeed,
    train_loop_config={"model_name": "meta-llama/Llama-3.1-70B"},
    scaling_config=ScalingConfig(num_workers=8, use_gpu=True),
    torch_config=ray.train.torch.TorchConfig(
        backend="nccl",
    ),
    # Pass DeepSpeed config directly
)
