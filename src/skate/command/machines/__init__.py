"""The subcommands for a cluster that a YAML file describes: `skate up`, `down`, `exec`, `attach`, `submit` and others."""
