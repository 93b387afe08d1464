"""Display of a search's progress while it runs."""
