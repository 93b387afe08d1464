"""The code of deployments: import paths, pickling, and fingerprints to detect changes."""
