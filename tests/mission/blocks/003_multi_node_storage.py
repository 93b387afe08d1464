run_config = RunConfig(storage_path="s3://my-bucket/ray-results", name="training_run")
