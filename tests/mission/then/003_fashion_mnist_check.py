assert len(result.metrics_dataframe) == 10 and result.metrics["epoch"] == 9
assert result.metrics["loss"] < result.metrics_dataframe["loss"][0]
with result.checkpoint.as_directory() as folder:
    state = torch.load(os.path.join(folder, "model.pt"))
assert state["conv1.weight"].shape == (64, 1, 7, 7)
assert result.path.endswith("/fashion_mnist_run")
print("ten epochs, the last with a loss of", round(result.metrics["loss"], 3))
