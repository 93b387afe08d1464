assert deepspeed_config["train_batch_size"] == "auto", "the reader's dict stays as it was"
result = trainer.fit()
losses = list(result.metrics_dataframe["loss"])
assert losses[2] < losses[0], losses
print("trained a", result.metrics["model"])
