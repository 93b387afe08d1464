"""Where datasets come from and where they go: datasources, datasinks, one file a format."""
