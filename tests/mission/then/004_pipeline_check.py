assert len(result.metrics_dataframe) == 2 and result.metrics["learning_rate"] == 0.001
losses = list(result.metrics_dataframe["loss"])
assert losses[1] < losses[0], losses
print("two stages, a loss of", round(losses[1], 3))
