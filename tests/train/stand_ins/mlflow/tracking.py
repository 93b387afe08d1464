import types

from mlflow import write


class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        self.uris = tracking_uri, registry_uri

    def create_run(self, experiment_id, start_time=None, tags=None, run_name=None):
        write("create_run", experiment=experiment_id, name=run_name, tags=tags, uri=self.uris[0])
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="run-1"))

    def log_param(self, run_id, key, value):
        write("log_param", run=run_id, key=key, value=value)

    def log_metric(self, run_id, key, value, timestamp=None, step=None):
        write("log_metric", run=run_id, key=key, value=value, step=step)

    def log_artifacts(self, run_id, local_dir, artifact_path=None):
        write("log_artifacts", run=run_id, folder=local_dir)

    def set_terminated(self, run_id, status=None, end_time=None):
        write("set_terminated", run=run_id, status=status)
