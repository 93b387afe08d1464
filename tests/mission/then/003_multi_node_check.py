assert run_config.storage_path == "s3://my-bucket/ray-results" and run_config.name == "training_run"
print("results go to", run_config.storage_path)
