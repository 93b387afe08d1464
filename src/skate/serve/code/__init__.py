"""The code of deployments: import paths, pickling, and fingerprints that tell whether it has changed."""
