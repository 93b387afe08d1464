"""A replica: one process that runs a deployment's code."""
