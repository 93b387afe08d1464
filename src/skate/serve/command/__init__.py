"""The command `serve`, also available as `skate serve`."""
