"""Stands for comet_ml where it is not installed: the calls that Skate makes, in a list."""

calls = []


class Artifact:
    def __init__(self, name, artifact_type):
        self.name, self.kind, self.files = name, artifact_type, []

    def add(self, path, logical_path=None):
        self.files.append(logical_path)


class Experiment:
    def __init__(self, **given):
        calls.append(("made", type(self).__name__, given))

    def log_artifact(self, artifact):
        calls.append(("log_artifact", artifact.name, artifact.kind, sorted(artifact.files)))

    def __getattr__(self, name):
        return lambda *args, **given: calls.append((name, *args, *given.values()))


class OfflineExperiment(Experiment):
    pass
