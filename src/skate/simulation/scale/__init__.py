"""The scale study: CPU time of the core as a cluster grows."""
