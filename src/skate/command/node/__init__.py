"""The subcommands for one node that stands: `skate drain-node` and `skate health-check`."""
