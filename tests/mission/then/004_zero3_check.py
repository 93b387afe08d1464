assert set(result.metrics) == {"f1", "accuracy"} and len(result.metrics_dataframe) == 3
with result.checkpoint.as_directory() as folder:
    names = [name for _, _, files in os.walk(folder) for name in files]
shards = [name for name in names if name.startswith("zero_pp_rank_") and "optim_states" in name]
assert len(shards) == 2, names
print("three epochs, and the shards of both workers:", len(shards))
