from skate.train.trainer import DataParallelTrainer

assert issubclass(TorchTrainer, Trainer) and Trainer is DataParallelTrainer
assert trainer.train_loop_config == {"model_name": "gpt2-large"}
assert not ray.is_initialized()
print("the block ran to its end")
