import ray
from ray import train
from ray.train import Trainer
from ray.train.torch import TorchTrainer
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

ray.init()

def train_loop(config):
    model_name = config["model_name"]
    tokenizer = AutoTokenizer.from_pretrained(model_name)
    model = AutoModelForCausalLM.from_pretrained(model_name)
    
    # Dataset loading and preprocessing here...
    # Training loop with optimizer, loss, etc.
    pass

trainer = TorchTrainer(
    train_loop_per_worker=train_loop,
    scaling_config=train.ScalingConfig(num_workers=4, use_gpu=True),
    config={"model_name": "gpt2-large"}
)

trainer.fit()
ray.shutdown()
