from ray.train import Result

(path,) = Path(os.environ["RAY_STORAGE"]).iterdir()
found = Result.from_path(str(path))
assert path.name.startswith("train_run-") and set(found.metrics) == {"loss", "accuracy"}
with found.checkpoint.as_directory() as folder:
    VisionTransformer(32, 4, 12, 8, 384, 768, 10).load_state_dict(
        torch.load(os.path.join(folder, "model.pt"))
    )
print("one epoch with an accuracy of", found.metrics["accuracy"])
