assert len(result.metrics_dataframe) == 3, "a report an epoch"
assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2]
losses = list(result.metrics_dataframe["loss"])
assert losses[2] < losses[0], losses
print("trained for", len(losses), "epochs")
